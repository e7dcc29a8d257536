import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** The same work in Kafka Streams. Arguments: bootstrap servers, work, input, output, folder, late, linger (ms). */
public class KafkaStreamsPeer {
  @JsonIgnoreProperties(ignoreUnknown = true)
  @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
  static class Delay {
    int dep_delay;
  }

  @JsonIgnoreProperties(ignoreUnknown = true)
  @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
  static class Flight {
    String carrier;
    int flight;
    String origin;
    String dest;
    int dep_delay;
    String hour;
  }

  static final ObjectMapper MAPPER = new ObjectMapper();
  static final ObjectReader DELAY = MAPPER.readerFor(Delay.class);
  static final ObjectReader FLIGHT = MAPPER.readerFor(Flight.class);
  static final ObjectWriter WRITER = MAPPER.writerFor(Flight.class);

  public static void main(String[] arguments) {
    String work = arguments[1];
    int late = Integer.parseInt(arguments[5]);
    Properties properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[3] + "-streams");
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
    properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    if (!arguments[6].isEmpty()) {
      properties.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), arguments[6]);
    }
    Serde<byte[]> bytes = Serdes.ByteArray();
    StreamsBuilder builder = new StreamsBuilder();
    KStream<byte[], byte[]> input = builder.stream(arguments[2], Consumed.with(bytes, bytes));
    KStream<byte[], byte[]> output =
        switch (work) {
          case "filter" -> input.filter((key, value) -> delay(value) >= late);
          case "rewrite" ->
              input
                  .mapValues(KafkaStreamsPeer::flight)
                  .filter((key, flight) -> flight.dep_delay >= late)
                  .mapValues(KafkaStreamsPeer::written);
          case "count" -> counted(input);
          default -> throw new IllegalArgumentException(work);
        };
    output.to(arguments[3], Produced.with(bytes, bytes));
    KafkaStreams streams = new KafkaStreams(builder.build(), properties);
    streams.setUncaughtExceptionHandler(
        error -> {
          error.printStackTrace();
          Runtime.getRuntime().halt(1);
          return null;
        });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  /** A running count and sum for each key, an update for each message. */
  static KStream<byte[], byte[]> counted(KStream<byte[], byte[]> input) {
    return input
        .groupByKey(Grouped.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .aggregate(
            () -> new byte[16],
            (key, value, sums) -> {
              ByteBuffer before = ByteBuffer.wrap(sums);
              return ByteBuffer.allocate(16)
                  .putLong(before.getLong() + 1)
                  .putLong(before.getLong() + delay(value))
                  .array();
            },
            Materialized.<byte[], byte[], KeyValueStore<Bytes, byte[]>>as("counts")
                .withKeySerde(Serdes.ByteArray())
                .withValueSerde(Serdes.ByteArray())
                .withCachingDisabled())
        .toStream()
        .mapValues(
            sums -> {
              ByteBuffer read = ByteBuffer.wrap(sums);
              String json = "{\"flights\":" + read.getLong() + ",\"total\":" + read.getLong() + "}";
              return json.getBytes(StandardCharsets.UTF_8);
            });
  }

  static int delay(byte[] value) {
    try {
      return DELAY.<Delay>readValue(value).dep_delay;
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static Flight flight(byte[] value) {
    try {
      return FLIGHT.readValue(value);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static byte[] written(Flight flight) {
    try {
      return WRITER.writeValueAsBytes(flight);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
