import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The workloads in Kafka Streams, in two threads or, for a slow function, in one thread for each partition. Arguments,
 * each as name=value: bootstrap, work, input, other (a join's second topic, or the topic of its table), output, folder,
 * late, linger (ms), commit (ms), slow (ms), store (memory or rocksdb), mode (at-least-once or exactly-once).
 */
public class KafkaStreamsPeer {
  @JsonIgnoreProperties(ignoreUnknown = true)
  @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
  static class Delay {
    int dep_delay;
  }

  @JsonIgnoreProperties(ignoreUnknown = true)
  @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
  static class Time {
    long at;
  }

  @JsonIgnoreProperties(ignoreUnknown = true)
  @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
  static class Landing {
    int arr_delay;
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
  static final ObjectReader TIME = MAPPER.readerFor(Time.class);
  static final ObjectReader LANDING = MAPPER.readerFor(Landing.class);
  static final ObjectReader FLIGHT = MAPPER.readerFor(Flight.class);
  static final ObjectWriter WRITER = MAPPER.writerFor(Flight.class);
  static final Serde<byte[]> BYTES = Serdes.ByteArray();

  public static void main(String[] arguments) {
    Map<String, String> given = new HashMap<>();
    for (String argument : arguments) {
      given.put(argument.substring(0, argument.indexOf('=')), argument.substring(argument.indexOf('=') + 1));
    }
    int late = Integer.parseInt(given.get("late"));
    StreamsBuilder builder = new StreamsBuilder();
    String work = given.get("work");
    Consumed<byte[], byte[]> consumed = Consumed.with(BYTES, BYTES);
    if (work.equals("windows") || work.equals("join")) {
      consumed = consumed.withTimestampExtractor(new EventTime());
    }
    KStream<byte[], byte[]> input = builder.stream(given.get("input"), consumed);
    KStream<byte[], byte[]> output =
        switch (work) {
          case "filter" -> input.filter((key, value) -> delay(value) >= late);
          case "rewrite" ->
              input
                  .mapValues(KafkaStreamsPeer::flight)
                  .filter((key, flight) -> flight.dep_delay >= late)
                  .mapValues(KafkaStreamsPeer::written);
          case "count" -> counted(input);
          case "windows" -> windowed(input);
          case "join" -> joined(input, builder.stream(given.get("other"), consumed));
          case "table" -> lookedUp(input, builder.globalTable(given.get("other"), Consumed.with(BYTES, BYTES)));
          case "slow" -> input.filter((key, value) -> slept(given.get("slow")));
          default -> throw new IllegalArgumentException(work);
        };
    output.to(given.get("output"), Produced.with(BYTES, BYTES));
    KafkaStreams streams = new KafkaStreams(builder.build(), properties(given));
    streams.setUncaughtExceptionHandler(
        error -> {
          error.printStackTrace();
          Runtime.getRuntime().halt(1);
          return null;
        });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  static Properties properties(Map<String, String> given) {
    Properties properties = new Properties();
    properties.put(StreamsConfig.APPLICATION_ID_CONFIG, given.get("output") + "-streams");
    properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given.get("bootstrap"));
    properties.put(StreamsConfig.STATE_DIR_CONFIG, given.get("folder"));
    properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, given.get("work").equals("slow") ? 4 : 2);
    properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    properties.put(
        StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
        given.get("store").equals("memory")
            ? BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class
            : BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class);
    // By default, closed windows are emitted only once a second, and not at all when no more records arrive.
    properties.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
    properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, given.get("commit"));
    boolean exactlyOnce = given.get("mode").equals("exactly-once");
    properties.put(
        StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
        exactlyOnce ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
    properties.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), given.get("linger"));
    properties.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
    properties.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 131072);
    properties.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 600000);
    properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 10000);
    properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG), 8388608);
    properties.put(StreamsConfig.consumerPrefix(ConsumerConfig.ISOLATION_LEVEL_CONFIG), "read_committed");
    return properties;
  }

  /** A running count and sum for each key, with an update for each message. */
  static KStream<byte[], byte[]> counted(KStream<byte[], byte[]> input) {
    return input
        .groupByKey(Grouped.with(BYTES, BYTES))
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
                .withKeySerde(BYTES)
                .withValueSerde(BYTES)
                .withCachingDisabled())
        .toStream()
        .mapValues(
            sums -> {
              ByteBuffer read = ByteBuffer.wrap(sums);
              return bytes("{\"flights\":" + read.getLong() + ",\"total\":" + read.getLong() + "}");
            });
  }

  /** A count for each key and window of ten seconds, written when the window closes. */
  static KStream<byte[], byte[]> windowed(KStream<byte[], byte[]> input) {
    return input
        .groupByKey(Grouped.with(BYTES, BYTES))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)))
        .emitStrategy(EmitStrategy.onWindowClose())
        .aggregate(
            () -> 0L,
            (key, value, count) -> count + 1,
            Materialized.<byte[], Long, WindowStore<Bytes, byte[]>>as("windows")
                .withKeySerde(BYTES)
                .withValueSerde(Serdes.Long())
                .withRetention(Duration.ofMinutes(5)) // a window is read again when it closes
                .withCachingDisabled())
        .toStream()
        .map(
            (window, count) ->
                KeyValue.pair(
                    window.key(),
                    bytes("{\"start\":" + window.window().start() / 1000 + ",\"flights\":" + count + "}")));
  }

  /** Departures with the landings of the same key within ten seconds of event time. */
  static KStream<byte[], byte[]> joined(KStream<byte[], byte[]> departures, KStream<byte[], byte[]> landings) {
    return departures.join(
        landings,
        (departure, landing) -> {
          Flight flight = flight(departure);
          return bytes(
              "{\"flight\":" + flight.flight + ",\"dep_delay\":" + flight.dep_delay + ",\"arr_delay\":"
                  + landing(landing) + "}");
        },
        JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)),
        StreamJoined.with(BYTES, BYTES, BYTES));
  }

  /** Each flight with the name of its destination, from a table of which every instance has a full copy. */
  static KStream<byte[], byte[]> lookedUp(KStream<byte[], byte[]> input, GlobalKTable<byte[], byte[]> names) {
    return input
        .mapValues(KafkaStreamsPeer::flight)
        .join(
            names,
            (key, flight) -> bytes(flight.dest),
            (flight, name) ->
                bytes(
                    "{\"flight\":" + flight.flight + ",\"dest\":\"" + flight.dest + "\",\"name\":\""
                        + new String(name, StandardCharsets.UTF_8) + "\"}"));
  }

  public static class EventTime implements TimestampExtractor {
    @Override
    public long extract(ConsumerRecord<Object, Object> record, long before) {
      try {
        return TIME.<Time>readValue((byte[]) record.value()).at * 1000;
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  /** A function that waits, and then passes the message on. */
  static boolean slept(String milliseconds) {
    try {
      Thread.sleep(Long.parseLong(milliseconds));
      return true;
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  static int delay(byte[] value) {
    try {
      return DELAY.<Delay>readValue(value).dep_delay;
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static int landing(byte[] value) {
    try {
      return LANDING.<Landing>readValue(value).arr_delay;
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

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
