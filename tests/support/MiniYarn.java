import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A YARN in one process, on an HDFS: MiniYarn HDFS_URI CLIENT_CONF NODES. Writes what a client needs to a file
 * yarn-site.xml in the folder CLIENT_CONF, says that it is there, then does what it reads, a line each, and says "done":
 * stop-node NUMBER, which ends a node manager and all that runs under it. It ends with its input.
 */
public class MiniYarn {
  private static final String RM = "yarn.resourcemanager.";
  private static final String NM = "yarn.nodemanager.";
  private static final String SCHEDULER = "yarn.scheduler.";

  public static void main(String[] words) throws Exception {
    YarnConfiguration conf = new YarnConfiguration();
    conf.set("fs.defaultFS", words[0]);
    conf.set(
        RM + "scheduler.class",
        "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler");
    conf.set(SCHEDULER + "capacity.root.queues", "default");
    conf.set(SCHEDULER + "capacity.root.default.capacity", "100");
    conf.set(SCHEDULER + "capacity.maximum-am-resource-percent", "0.9");
    conf.setInt(SCHEDULER + "minimum-allocation-mb", 64);
    conf.setInt(NM + "resource.memory-mb", 6144);
    conf.setInt(NM + "resource.cpu-vcores", 8);
    conf.setBoolean(NM + "pmem-check-enabled", false);
    conf.setBoolean(NM + "vmem-check-enabled", false);
    conf.set(NM + "disk-health-checker.max-disk-utilization-per-disk-percentage", "99");
    conf.setLong(NM + "delete.debug-delay-sec", 3600); // what a test that failed is explained by
    MiniYARNCluster yarn = new MiniYARNCluster("nodes", Integer.parseInt(words[2]), 1, 1);
    yarn.init(conf);
    yarn.start();
    if (!yarn.waitForNodeManagersToConnect(60000)) throw new IllegalStateException("no node manager has connected");
    writeForClients(yarn.getConfig(), new File(words[1], "yarn-site.xml"));
    say("up");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] order = line.split(" ");
      if (order[0].equals("stop-node")) yarn.getNodeManager(Integer.parseInt(order[1])).stop();
      say("done");
    }
    System.exit(0); // its services end their threads in their own time
  }

  /** Not all that the cluster itself knows: that names classes which clients don't have. */
  private static void writeForClients(Configuration all, File file) throws Exception {
    Configuration few = new Configuration(false);
    String[] addresses = {"address", "scheduler.address", "webapp.address", "admin.address", "resource-tracker.address"};
    for (String name : addresses) few.set(RM + name, all.get(RM + name));
    few.set(RM + "hostname", "localhost");
    few.set("yarn.application.classpath", "$PWD");
    try (OutputStream out = new FileOutputStream(file)) {
      few.writeXml(out);
    }
  }

  private static void say(String text) {
    System.out.println("> " + text);
    System.out.flush();
  }
}
