import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.codehaus.janino.SimpleCompiler;

/**
 * Asks CheckpointFiles.java, which it compiles as anabranch does, whether leases of 1000 ms are over, and writes,
 * renames and deletes a file before, during and after a lease. Arguments: that Java file, a local folder, and for each of the leases how many ms
 * its two clocks have advanced, as NANOS,DAY.
 */
public class Leases {
  public static void main(String[] words) throws Exception {
    SimpleCompiler compiler = new SimpleCompiler();
    compiler.setParentClassLoader(Leases.class.getClassLoader());
    compiler.cook(Files.readString(Paths.get(words[0])));
    Class<?> files = compiler.getClassLoader().loadClass("anabranch.CheckpointFiles");
    Method isOver = files.getMethod("isOver", long[].class, long.class, long.class);
    for (int i = 2; i < words.length; i++) {
      String[] at = words[i].split(",");
      long nanos = Long.MAX_VALUE - 500000000L; // it wraps around meanwhile
      long[] until = {nanos + 1000000000L, 5000L + 1000L};
      long now = nanos + Long.parseLong(at[0]) * 1000000L;
      System.out.println(isOver.invoke(null, until, now, 5000L + Long.parseLong(at[1])));
    }
    Method lease = files.getMethod("lease", String.class, long.class);
    Method write = files.getMethod("write", FileSystem.class, Path.class, String.class);
    Method rename = files.getMethod("rename", FileSystem.class, Path.class, Path.class);
    Method delete = files.getMethod("deleteFile", FileSystem.class, Path.class);
    FileSystem fs = FileSystem.getLocal(new Configuration());
    Path file = new Path(new Path(words[1]), "file");
    Path other = new Path(file.getParent(), "other");
    for (long ms : new long[] {-1, 60000, 0}) {
      if (ms >= 0) lease.invoke(null, file.getParent().toString(), ms);
      Thread.sleep(2);
      said("written", write, fs, file, "text");
      said("renamed", rename, fs, file, other);
      said("deleted", delete, fs, other);
    }
  }

  private static void said(String what, Method method, Object... given) throws Exception {
    try {
      method.invoke(null, given);
      System.out.println(what);
    } catch (InvocationTargetException error) {
      System.out.println(error.getTargetException().getMessage().split(":")[0]);
    }
  }
}
