import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's own runners of one Python source, begun at once by two threads, again and again: how often is the map of
 * environment variables that they share broken afterwards? Words: the number of rounds, then variables that are there
 * from the start. The runners end at the Python that they can't find, after they have set their variables.
 */
final class SharedEnvironment {
  private static Map<String, String> shared;

  public static void main(String[] words) throws Exception {
    int rounds = Integer.parseInt(words[0]);
    SparkConf conf = new SparkConf().setMaster("local[1]").setAppName("race").set("spark.ui.enabled", "false");
    conf.set("spark.log.level", "OFF");
    try (JavaSparkContext context = new JavaSparkContext(conf)) {
      CyclicBarrier barrier = new CyclicBarrier(2);
      int broken = 0;
      int unreadable = 0;
      String example = "";
      for (int round = 0; round < rounds; round++) {
        Map<String, String> before = new HashMap<>(Map.of("PYTHONHASHSEED", "0"));
        for (int each = 1; each < words.length; each++) {
          before.put(words[each], "");
        }
        shared = before;
        Thread[] threads = {new Thread(() -> begin(barrier)), new Thread(() -> begin(barrier))};
        for (Thread each : threads) {
          each.start();
        }
        for (Thread each : threads) {
          each.join();
        }
        int entries = 0;
        for (Map.Entry<String, String> ignored : shared.entrySet()) {
          entries++;
        }
        if (entries != shared.size() || entries != 5) {
          broken++;
        }
        try {
          ByteArrayOutputStream bytes = new ByteArrayOutputStream();
          try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(shared);
          }
          new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray())).readObject();
        } catch (java.io.IOException error) {
          unreadable++;
          example = error.toString();
        }
      }
      System.out.printf("%d of %d broken, %d unreadable %s%n", broken, rounds, unreadable, example);
    }
  }

  private static void begin(CyclicBarrier barrier) {
    PythonFunction source =
        new SimplePythonFunction(
            CollectionConverters.asScala(List.<Object>of()).toSeq(), shared, List.of(), "/no/python", "3", List.of(), null);
    PythonStreamingSourceRunner runner = new PythonStreamingSourceRunner(source, new StructType());
    try {
      barrier.await();
      runner.init();
      throw new IllegalStateException("there is a Python where none should be");
    } catch (BrokenBarrierException | InterruptedException error) {
      throw new IllegalStateException(error);
    } catch (Exception expected) {
      if (!expected.toString().contains("no/python")) {
        throw expected;
      }
    }
  }
}
