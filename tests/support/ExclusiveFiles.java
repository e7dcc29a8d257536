import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.codehaus.janino.SimpleCompiler;

/**
 * Creates files by CheckpointFiles.java, which it compiles as anabranch does, each twice, and prints what came of it.
 * Arguments: that file, a folder, how many, and Hadoop's settings as names and values.
 */
public class ExclusiveFiles {
  public static void main(String[] words) throws Exception {
    SimpleCompiler compiler = new SimpleCompiler();
    compiler.setParentClassLoader(ExclusiveFiles.class.getClassLoader());
    compiler.cook(Files.readString(Paths.get(words[0])));
    Class<?> files = compiler.getClassLoader().loadClass("anabranch.CheckpointFiles");
    Method create = files.getMethod("create", FileSystem.class, Path.class, String.class);
    Method read = files.getMethod("read", FileSystem.class, Path.class);
    Configuration conf = new Configuration();
    for (int i = 3; i < words.length; i += 2) conf.set(words[i], words[i + 1]);
    FileSystem fs = new Path(words[1]).getFileSystem(conf);
    for (int file = 0; file < Integer.parseInt(words[2]); file++) {
      Path path = new Path(words[1], Integer.toString(file));
      for (String text : new String[] {"first", "second"}) {
        try {
          System.out.println(create.invoke(null, fs, path, text) + " " + read.invoke(null, fs, path));
        } catch (InvocationTargetException error) {
          System.out.println(error.getTargetException().getMessage().split("\n")[0]);
        }
      }
    }
    System.exit(0); // the connections of S3's client would keep it alive
  }
}
