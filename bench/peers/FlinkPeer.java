import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * The workloads in Flink's DataStream API, in one process with two slots. Arguments, each as name=value: bootstrap,
 * work, input, other (a join's second topic), output, folder, table (a CSV file), late, linger (ms), commit (ms),
 * slow (ms), at_once (calls of a slow function), mode (at-least-once or exactly-once).
 */
public class FlinkPeer {
  /** The fields of a value that the workloads read. */
  @JsonIgnoreProperties(ignoreUnknown = true)
  @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
  static class Flight {
    int flight;
    String dest;
    int dep_delay;
    int arr_delay;
    long at;
  }

  @JsonIgnoreProperties(ignoreUnknown = true)
  @JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
  static class Delay {
    int dep_delay;
  }

  static final ObjectMapper MAPPER = new ObjectMapper();
  static final ObjectReader DELAY = MAPPER.readerFor(Delay.class);
  static final ObjectReader FLIGHT = MAPPER.readerFor(Flight.class);

  /** A record: its key and its value. */
  static final TypeInformation<Tuple2<byte[], byte[]>> RECORD =
      Types.TUPLE(
          PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);

  /** A key and two numbers. */
  static final TypeInformation<Tuple3<String, Integer, Integer>> NUMBERS =
      Types.TUPLE(Types.STRING, Types.INT, Types.INT);

  final Map<String, String> given = new HashMap<>();
  final StreamExecutionEnvironment environment;

  FlinkPeer(String[] arguments) {
    for (String argument : arguments) {
      given.put(argument.substring(0, argument.indexOf('=')), argument.substring(argument.indexOf('=') + 1));
    }
    Configuration settings = new Configuration();
    settings.set(PipelineOptions.OBJECT_REUSE, true);
    settings.set(StateBackendOptions.STATE_BACKEND, "hashmap");
    settings.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
    settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, Path.of(given.get("folder"), "checkpoints").toUri().toString());
    settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(Long.parseLong(given.get("commit"))));
    settings.set(
        CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE,
        exactlyOnce() ? CheckpointingMode.EXACTLY_ONCE : CheckpointingMode.AT_LEAST_ONCE);
    settings.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
    environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
    environment.setParallelism(2);
  }

  boolean exactlyOnce() {
    return given.get("mode").equals("exactly-once");
  }

  public static void main(String[] arguments) throws Exception {
    FlinkPeer peer = new FlinkPeer(arguments);
    peer.write(
        switch (peer.given.get("work")) {
          case "filter" -> peer.filtered();
          case "count" -> peer.counted();
          case "windows" -> peer.windowed();
          case "join" -> peer.joined();
          case "table" -> peer.lookedUp();
          case "slow" -> peer.slow();
          default -> throw new IllegalArgumentException(peer.given.get("work"));
        });
    peer.environment.execute();
  }

  DataStream<Tuple2<byte[], byte[]>> read(
      String topic, WatermarkStrategy<Tuple2<byte[], byte[]>> watermarks) {
    KafkaSource<Tuple2<byte[], byte[]>> source =
        KafkaSource.<Tuple2<byte[], byte[]>>builder()
            .setBootstrapServers(given.get("bootstrap"))
            .setTopics(topic)
            .setGroupId(given.get("output"))
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setProperty("isolation.level", "read_committed")
            .setProperty("max.poll.records", "10000")
            .setProperty("max.partition.fetch.bytes", "8388608")
            .setDeserializer(new Deserializer())
            .build();
    return environment.fromSource(source, watermarks, topic, RECORD);
  }

  DataStream<Tuple2<byte[], byte[]>> read() {
    return read(given.get("input"), WatermarkStrategy.noWatermarks());
  }

  /** Event time from the records, which are late by at most the given seconds within a partition. */
  static WatermarkStrategy<Tuple2<byte[], byte[]>> eventTime(int seconds) {
    return WatermarkStrategy.<Tuple2<byte[], byte[]>>forBoundedOutOfOrderness(Duration.ofSeconds(seconds))
        .withTimestampAssigner((record, before) -> flight(record.f1).at * 1000);
  }

  void write(DataStream<Tuple2<byte[], byte[]>> stream) {
    Properties properties = new Properties();
    properties.put("compression.type", "lz4");
    properties.put("linger.ms", given.get("linger"));
    properties.put("batch.size", "131072");
    properties.put("transaction.timeout.ms", "600000");
    stream.sinkTo(
        KafkaSink.<Tuple2<byte[], byte[]>>builder()
            .setBootstrapServers(given.get("bootstrap"))
            .setKafkaProducerConfig(properties)
            .setDeliveryGuarantee(exactlyOnce() ? DeliveryGuarantee.EXACTLY_ONCE : DeliveryGuarantee.AT_LEAST_ONCE)
            .setTransactionalIdPrefix(given.get("output"))
            .setRecordSerializer(new Serializer(given.get("output")))
            .build());
  }

  DataStream<Tuple2<byte[], byte[]>> filtered() {
    int late = Integer.parseInt(given.get("late"));
    return read().filter(record -> delay(record.f1) >= late);
  }

  /** A running count and sum for each key, with an update for each message. */
  DataStream<Tuple2<byte[], byte[]>> counted() {
    return read()
        .map(record -> Tuple3.of(text(record.f0), delay(record.f1), 0), NUMBERS)
        .keyBy(each -> each.f0)
        .process(new Counting())
        .returns(RECORD);
  }

  /** A count for each key and window of ten seconds, written when the window closes. */
  DataStream<Tuple2<byte[], byte[]>> windowed() {
    return read(given.get("input"), eventTime(5))
        .map(record -> Tuple3.of(text(record.f0), 0, 0), NUMBERS)
        .keyBy(each -> each.f0)
        .window(TumblingEventTimeWindows.of(Duration.ofSeconds(10)))
        .aggregate(new Counter(), new WindowWriter(), Types.LONG, Types.LONG, RECORD);
  }

  /** Departures with the landings of the same key within ten seconds of event time. */
  DataStream<Tuple2<byte[], byte[]>> joined() {
    return numbers(given.get("input"))
        .keyBy(each -> each.f0)
        .intervalJoin(numbers(given.get("other")).keyBy(each -> each.f0))
        .between(Duration.ofSeconds(-10), Duration.ofSeconds(10))
        .process(new Joiner(), RECORD);
  }

  DataStream<Tuple3<String, Integer, Integer>> numbers(String topic) {
    boolean departures = topic.equals(given.get("input"));
    return read(topic, eventTime(5))
        .map(
            record -> {
              Flight flight = flight(record.f1);
              return Tuple3.of(text(record.f0), flight.flight, departures ? flight.dep_delay : flight.arr_delay);
            },
            NUMBERS);
  }

  /** Each flight with the name of its destination, from a table that is read when the job starts. */
  DataStream<Tuple2<byte[], byte[]>> lookedUp() {
    return read().flatMap(new Lookup(given.get("table"))).returns(RECORD);
  }

  /** A function that waits. It is called for several messages at once, which stay in order. */
  DataStream<Tuple2<byte[], byte[]>> slow() {
    int atOnce = Integer.parseInt(given.get("at_once")) / environment.getParallelism();
    Sleeper sleeper = new Sleeper(atOnce, Long.parseLong(given.get("slow")));
    return AsyncDataStream.orderedWait(read(), sleeper, 10, TimeUnit.MINUTES, atOnce).returns(RECORD);
  }

  static class Sleeper extends RichAsyncFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> {
    final int threads;
    final long milliseconds;
    transient ExecutorService executor;

    Sleeper(int threads, long milliseconds) {
      this.threads = threads;
      this.milliseconds = milliseconds;
    }

    @Override
    public void open(OpenContext context) {
      executor = Executors.newFixedThreadPool(threads);
    }

    @Override
    public void asyncInvoke(Tuple2<byte[], byte[]> record, ResultFuture<Tuple2<byte[], byte[]>> result) {
      executor.execute(
          () -> {
            try {
              Thread.sleep(milliseconds);
              result.complete(List.of(record));
            } catch (InterruptedException error) {
              result.completeExceptionally(error);
            }
          });
    }

    @Override
    public void close() {
      if (executor != null) {
        executor.shutdownNow();
      }
    }
  }

  static class Counting extends KeyedProcessFunction<String, Tuple3<String, Integer, Integer>, Tuple2<byte[], byte[]>> {
    transient ValueState<Tuple2<Long, Long>> sums;

    @Override
    public void open(OpenContext context) {
      sums = getRuntimeContext().getState(new ValueStateDescriptor<>("sums", Types.TUPLE(Types.LONG, Types.LONG)));
    }

    @Override
    public void processElement(
        Tuple3<String, Integer, Integer> each, Context context, Collector<Tuple2<byte[], byte[]>> collector)
        throws Exception {
      Tuple2<Long, Long> before = sums.value();
      Tuple2<Long, Long> after =
          before == null ? Tuple2.of(1L, (long) each.f1) : Tuple2.of(before.f0 + 1, before.f1 + each.f1);
      sums.update(after);
      collector.collect(
          Tuple2.of(bytes(each.f0), bytes("{\"flights\":" + after.f0 + ",\"total\":" + after.f1 + "}")));
    }
  }

  static class Counter implements AggregateFunction<Tuple3<String, Integer, Integer>, Long, Long> {
    @Override
    public Long createAccumulator() {
      return 0L;
    }

    @Override
    public Long add(Tuple3<String, Integer, Integer> each, Long count) {
      return count + 1;
    }

    @Override
    public Long getResult(Long count) {
      return count;
    }

    @Override
    public Long merge(Long one, Long other) {
      return one + other;
    }
  }

  static class WindowWriter extends ProcessWindowFunction<Long, Tuple2<byte[], byte[]>, String, TimeWindow> {
    @Override
    public void process(
        String key, Context context, Iterable<Long> counts, Collector<Tuple2<byte[], byte[]>> collector) {
      long start = context.window().getStart() / 1000;
      String json = "{\"start\":" + start + ",\"flights\":" + counts.iterator().next() + "}";
      collector.collect(Tuple2.of(bytes(key), bytes(json)));
    }
  }

  static class Joiner
      extends ProcessJoinFunction<
          Tuple3<String, Integer, Integer>, Tuple3<String, Integer, Integer>, Tuple2<byte[], byte[]>> {
    @Override
    public void processElement(
        Tuple3<String, Integer, Integer> departure,
        Tuple3<String, Integer, Integer> landing,
        Context context,
        Collector<Tuple2<byte[], byte[]>> collector) {
      String json =
          "{\"flight\":" + departure.f1 + ",\"dep_delay\":" + departure.f2 + ",\"arr_delay\":" + landing.f2 + "}";
      collector.collect(Tuple2.of(bytes(departure.f0), bytes(json)));
    }
  }

  static class Lookup extends RichFlatMapFunction<Tuple2<byte[], byte[]>, Tuple2<byte[], byte[]>> {
    final String file;
    transient Map<String, String> names;

    Lookup(String file) {
      this.file = file;
    }

    @Override
    public void open(OpenContext context) throws Exception {
      names = new HashMap<>();
      for (String line : Files.readAllLines(Path.of(file))) {
        String[] fields = line.split(",");
        names.put(fields[0], fields[1]);
      }
    }

    @Override
    public void flatMap(Tuple2<byte[], byte[]> record, Collector<Tuple2<byte[], byte[]>> collector) throws Exception {
      Flight flight = flight(record.f1);
      String name = names.get(flight.dest);
      if (name != null) {
        String json =
            "{\"flight\":" + flight.flight + ",\"dest\":\"" + flight.dest + "\",\"name\":\"" + name + "\"}";
        collector.collect(Tuple2.of(record.f0, bytes(json)));
      }
    }
  }

  static class Deserializer implements KafkaRecordDeserializationSchema<Tuple2<byte[], byte[]>> {
    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<byte[], byte[]>> collector) {
      collector.collect(Tuple2.of(record.key(), record.value()));
    }

    @Override
    public TypeInformation<Tuple2<byte[], byte[]>> getProducedType() {
      return RECORD;
    }
  }

  static class Serializer implements KafkaRecordSerializationSchema<Tuple2<byte[], byte[]>> {
    final String topic;

    Serializer(String topic) {
      this.topic = topic;
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(
        Tuple2<byte[], byte[]> record, KafkaSinkContext context, Long timestamp) {
      return new ProducerRecord<>(topic, record.f0, record.f1);
    }
  }

  static int delay(byte[] value) throws IOException {
    return DELAY.<Delay>readValue(value).dep_delay;
  }

  static Flight flight(byte[] value) {
    try {
      return FLIGHT.readValue(value);
    } catch (IOException error) {
      throw new IllegalArgumentException(error);
    }
  }

  static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
