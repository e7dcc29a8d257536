import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;

/**
 * An HDFS in one process: MiniHdfs FOLDER. Says where it is, then does what it reads, a line each, and says "done":
 * safe-mode on|off, name stop|start, data stop|start, quota PATH BYTES, where BYTES is -1 for none. It ends with its
 * input.
 */
public class MiniHdfs {
  public static void main(String[] words) throws Exception {
    File folder = new File(words[0]).getAbsoluteFile();
    folder.mkdirs();
    System.setProperty("test.build.data", folder + "/data");
    System.setProperty("hadoop.log.dir", folder + "/logs");
    Configuration conf = new Configuration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder + "/dfs");
    conf.setInt("dfs.replication", 1);
    MiniDFSCluster hdfs = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
    hdfs.waitActive();
    MiniDFSCluster.DataNodeProperties data = null;
    say(hdfs.getURI().toString());
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] order = line.split(" ");
      if (order[0].equals("safe-mode")) {
        hdfs.getFileSystem().setSafeMode(order[1].equals("on") ? HdfsConstants.SafeModeAction.SAFEMODE_ENTER
            : HdfsConstants.SafeModeAction.SAFEMODE_LEAVE);
      } else if (line.equals("name stop")) {
        hdfs.shutdownNameNode(0);
      } else if (line.equals("name start")) {
        hdfs.restartNameNode(0, true);
      } else if (line.equals("data stop")) {
        data = hdfs.stopDataNode(0);
      } else if (line.equals("data start")) {
        hdfs.restartDataNode(data, true);
        hdfs.waitActive();
      } else if (order[0].equals("quota")) {
        long most = Long.parseLong(order[2]);
        hdfs.getFileSystem().setQuota(new Path(order[1]), HdfsConstants.QUOTA_DONT_SET, most < 0 ? HdfsConstants.QUOTA_RESET : most);
      }
      say("done");
    }
    hdfs.shutdown();
  }

  private static void say(String text) {
    System.out.println("> " + text);
    System.out.flush();
  }
}
