package anabranch;

import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkproject.spark_core.protobuf.ByteString;
import org.sparkproject.spark_core.protobuf.DescriptorProtos;
import org.sparkproject.spark_core.protobuf.Descriptors;
import org.sparkproject.spark_core.protobuf.DynamicMessage;
import org.sparkproject.spark_core.protobuf.InvalidProtocolBufferException;
import org.sparkproject.spark_core.protobuf.Message;

/**
 * Reads and writes protocol-buffer messages, with a descriptor set. docs/reference/values.md has the rules.
 *
 * Spark's own module for protocol buffers must be installed separately, reads unsigned numbers as signed numbers, and
 * treats a field of another type as missing. Spark's core contains the protocol-buffer library that is used here.
 * Janino compiles this file, as it does StrictJson.java.
 */
public final class Protobuf implements UDF1, Serializable {
  static final long FIRST_SECOND = -62135596800L, LAST_SECOND = 253402300799L;

  /** Why a value can't be read. */
  static final class Fault extends RuntimeException {
    Fault(String message) { super(message, null, false, false); }
  }

  private final byte[] files;
  private final String name, mode;
  private final StructType declared, columns;
  private final int[] places;
  private transient Descriptors.Descriptor message;

  /**
   * @param files a serialized FileDescriptorSet, with all files that its files import.
   * @param name the full name of the message type.
   * @param declared the columns to check when a message is read. Their types fit the types of the message's fields.
   * @param columns the columns to read or write, all of which are in {@code declared}.
   * @param mode "row" to convert bytes to a row, or to null if they can't be read; "reason" for the reason why bytes
   *     can't be read, or null if they can; "write" to convert a row to bytes.
   */
  public Protobuf(byte[] files, String name, StructType declared, StructType columns, String mode) {
    this.files = files;
    this.name = name;
    this.declared = declared;
    this.columns = columns;
    this.mode = mode;
    String[] names = columns.fieldNames();
    places = new int[names.length];
    for (int i = 0; i < names.length; i++) places[i] = declared.fieldIndex(names[i]);
  }

  public Object call(Object value) throws Exception {
    if (message == null) message = descriptor(files, name);
    if (mode.equals("write")) return value == null ? null : built(message, (Row) value, columns).toByteArray();
    boolean explains = mode.equals("reason");
    if (value == null) return explains ? "the value is null" : null;
    try {
      Message read = DynamicMessage.parseFrom(message, (byte[]) value);
      check(read, "");
      new Wire((byte[]) value).check(message, ((byte[]) value).length);
      Row row = row(read, declared, "");
      return explains ? null : wanted(row);
    } catch (Fault fault) {
      return explains ? fault.getMessage() : null;
    } catch (RuntimeException error) {  // no content of a record may stop a lane
      return explains ? "the value can't be read: " + error : null;
    } catch (InvalidProtocolBufferException error) {
      return explains ? "the value is no message " + name + ": " + error.getMessage() : null;
    }
  }

  static Descriptors.Descriptor descriptor(byte[] files, String name) throws Exception {
    HashMap protos = new HashMap(), made = new HashMap();
    Iterator several = DescriptorProtos.FileDescriptorSet.parseFrom(files).getFileList().iterator();
    while (several.hasNext()) {
      DescriptorProtos.FileDescriptorProto each = (DescriptorProtos.FileDescriptorProto) several.next();
      protos.put(each.getName(), each);
    }
    Iterator names = protos.keySet().iterator();
    while (names.hasNext()) {
      Iterator types = file((String) names.next(), protos, made).getMessageTypes().iterator();
      while (types.hasNext()) {
        Descriptors.Descriptor found = within((Descriptors.Descriptor) types.next(), name);
        if (found != null) return found;
      }
    }
    throw new IllegalArgumentException("there is no message " + name);
  }

  private static Descriptors.Descriptor within(Descriptors.Descriptor type, String name) {
    if (type.getFullName().equals(name)) return type;
    Iterator several = type.getNestedTypes().iterator();
    while (several.hasNext()) {
      Descriptors.Descriptor found = within((Descriptors.Descriptor) several.next(), name);
      if (found != null) return found;
    }
    return null;
  }

  private static Descriptors.FileDescriptor file(String name, Map protos, Map made) throws Exception {
    if (made.containsKey(name)) return (Descriptors.FileDescriptor) made.get(name);
    DescriptorProtos.FileDescriptorProto proto = (DescriptorProtos.FileDescriptorProto) protos.get(name);
    if (proto == null) throw new IllegalArgumentException("the descriptor set lacks " + name);
    Descriptors.FileDescriptor[] needed = new Descriptors.FileDescriptor[proto.getDependencyCount()];
    for (int i = 0; i < needed.length; i++) needed[i] = file(proto.getDependency(i), protos, made);
    Descriptors.FileDescriptor found = Descriptors.FileDescriptor.buildFrom(proto, needed);
    made.put(name, found);
    return found;
  }

  /**
   * Throws a Fault if a field was written with another type than it has, or if an enum has an unknown number. The
   * library treats such a field as an unknown field.
   */
  private static void check(Message read, String path) {
    Iterator numbers = read.getUnknownFields().asMap().keySet().iterator();
    while (numbers.hasNext()) {
      Descriptors.FieldDescriptor known = read.getDescriptorForType().findFieldByNumber(((Integer) numbers.next()).intValue());
      if (known == null) continue;
      if (known.getJavaType() == Descriptors.FieldDescriptor.JavaType.ENUM) {
        throw new Fault("the column '" + path + known.getName() + "' has a number that its enum doesn't have");
      }
      throw new Fault("the column '" + path + known.getName() + "' was written with another type");
    }
    Iterator several = read.getAllFields().entrySet().iterator();
    while (several.hasNext()) {
      Map.Entry each = (Map.Entry) several.next();
      Descriptors.FieldDescriptor field = (Descriptors.FieldDescriptor) each.getKey();
      if (field.getJavaType() != Descriptors.FieldDescriptor.JavaType.MESSAGE) continue;
      String below = path + field.getName() + ".";
      if (!field.isRepeated()) check((Message) each.getValue(), below);
      else for (Iterator parts = ((List) each.getValue()).iterator(); parts.hasNext();) check((Message) parts.next(), below);
    }
  }

  /**
   * Checks the bytes of a message that the library has parsed. Throws a Fault if a number has more bits than its type,
   * if a bool is neither 0 nor 1, or if a string isn't UTF-8. The library cuts off the bits, reads any number but 0 as
   * true, and in proto2 replaces bytes that aren't UTF-8.
   */
  static final class Wire {
    private static final int VARINT = 0, FIXED64 = 1, LENGTH = 2, GROUP = 3, END_OF_GROUP = 4;
    private final byte[] bytes;
    private final ArrayList within = new ArrayList();
    private int at;
    private boolean wide;

    Wire(byte[] bytes) { this.bytes = bytes; }

    /** Checks one message, up to the position {@code end} or to the end of its group. A null type is unknown. */
    void check(Descriptors.Descriptor type, int end) {
      while (at < end) {
        int tag = (int) varint();
        Descriptors.FieldDescriptor field = type == null ? null : type.findFieldByNumber(tag >>> 3);
        switch (tag & 7) {
          case VARINT: number(field); break;
          case FIXED64: at += 8; break;
          case LENGTH: delimited(field, (int) varint()); break;
          case GROUP: inside(field, end); break;
          case END_OF_GROUP: return;
          default: at += 4;
        }
      }
    }

    private void delimited(Descriptors.FieldDescriptor field, int length) {
      int end = at + length;
      if (field == null) at = end;
      else if (field.getType() == Descriptors.FieldDescriptor.Type.MESSAGE) inside(field, end);
      else if (field.getType() == Descriptors.FieldDescriptor.Type.STRING) {
        if (!UTF8String.fromBytes(bytes, at, length).isValid()) throw new Fault(column(field) + " isn't UTF-8");
      } else if (field.isPackable()) {
        boolean numbers = field.getLiteType().getWireType() == VARINT;
        while (numbers && at < end) number(field);
      }
      at = end;
    }

    private void inside(Descriptors.FieldDescriptor field, int end) {
      boolean known = field != null && field.getJavaType() == Descriptors.FieldDescriptor.JavaType.MESSAGE;
      within.add(field);
      check(known ? field.getMessageType() : null, end);
      within.remove(within.size() - 1);
    }

    private void number(Descriptors.FieldDescriptor field) {
      long value = varint();
      if (field == null) return;
      Descriptors.FieldDescriptor.Type kind = field.getType();
      boolean signed = kind == Descriptors.FieldDescriptor.Type.INT32 || kind == Descriptors.FieldDescriptor.Type.ENUM;
      boolean zigzag = kind == Descriptors.FieldDescriptor.Type.SINT32;
      boolean fits = signed ? value == (int) value
          : zigzag || kind == Descriptors.FieldDescriptor.Type.UINT32 ? value >>> 32 == 0
          : kind != Descriptors.FieldDescriptor.Type.BOOL || value >>> 1 == 0;
      if (fits && !wide) return;
      String shown = wide ? "a number of more than 64 bits" : signed ? Long.toString(value)
          : zigzag ? Long.toString(value >>> 1 ^ -(value & 1)) : Long.toUnsignedString(value);
      throw new Fault(column(field) + " is no " + kind.name().toLowerCase(Locale.ROOT) + ": " + shown);
    }

    private long varint() {
      long value = 0;
      wide = false;
      for (int i = 0; ; i++) {
        byte each = bytes[at++];
        value |= (long) (each & 0x7f) << (7 * i);
        if (each < 0) continue;
        wide = i == 9 && each > 1;
        return value;
      }
    }

    private String column(Descriptors.FieldDescriptor field) {
      StringBuilder path = new StringBuilder();
      for (int i = 0; i < within.size(); i++) {
        path.append(((Descriptors.FieldDescriptor) within.get(i)).getName()).append('.');
      }
      return "the column '" + path + field.getName() + "'";
    }
  }

  private Row wanted(Row row) {
    Object[] found = new Object[places.length];
    for (int i = 0; i < places.length; i++) found[i] = row.get(places[i]);
    return RowFactory.create(found);
  }

  private static Row row(Message read, StructType columns, String path) {
    String[] names = columns.fieldNames();
    Object[] row = new Object[names.length];
    for (int i = 0; i < names.length; i++) {
      Descriptors.FieldDescriptor field = read.getDescriptorForType().findFieldByName(names[i]);
      DataType type = columns.fields()[i].dataType();
      if (field.isMapField()) row[i] = map((List) read.getField(field), (MapType) type, path + names[i]);
      else if (field.isRepeated()) row[i] = list(field, (List) read.getField(field), (ArrayType) type, path + names[i]);
      else if (!field.hasPresence() || read.hasField(field)) {
        row[i] = value(field, read.getField(field), type, path + names[i]);
      }
    }
    return RowFactory.create(row);
  }

  private static Object map(List entries, MapType type, String path) {
    LinkedHashMap found = new LinkedHashMap();
    for (Iterator each = entries.iterator(); each.hasNext();) {
      Message entry = (Message) each.next();
      Descriptors.FieldDescriptor key = entry.getDescriptorForType().findFieldByNumber(1);
      Descriptors.FieldDescriptor value = entry.getDescriptorForType().findFieldByNumber(2);
      Object name = value(key, entry.getField(key), type.keyType(), path);
      found.put(name, value(value, entry.getField(value), type.valueType(), path));
    }
    return found;
  }

  private static Object list(Descriptors.FieldDescriptor field, List values, ArrayType type, String path) {
    ArrayList found = new ArrayList();
    for (Iterator each = values.iterator(); each.hasNext();) found.add(value(field, each.next(), type.elementType(), path));
    return found;
  }

  private static Object value(Descriptors.FieldDescriptor field, Object held, DataType type, String path) {
    Descriptors.FieldDescriptor.Type kind = field.getType();
    if (kind == Descriptors.FieldDescriptor.Type.UINT32 || kind == Descriptors.FieldDescriptor.Type.FIXED32) {
      return Long.valueOf(((Integer) held).intValue() & 0xffffffffL);
    }
    if (kind == Descriptors.FieldDescriptor.Type.UINT64 || kind == Descriptors.FieldDescriptor.Type.FIXED64) {
      return new BigDecimal(new BigInteger(Long.toUnsignedString(((Long) held).longValue())));
    }
    if (held instanceof ByteString) return ((ByteString) held).toByteArray();
    if (held instanceof Descriptors.EnumValueDescriptor) return symbol((Descriptors.EnumValueDescriptor) held, path);
    if (type instanceof TimestampType) return instant((Message) held, path);
    if (held instanceof Message) return row((Message) held, (StructType) type, path + ".");
    return held;
  }

  private static String symbol(Descriptors.EnumValueDescriptor held, String path) {
    if (held.getType().findValueByNumber(held.getNumber()) == null) {
      throw new Fault("the column '" + path + "' has a number that its enum doesn't have: " + held.getNumber());
    }
    return held.getName();
  }

  private static Instant instant(Message held, String path) {
    long seconds = ((Long) held.getField(held.getDescriptorForType().findFieldByNumber(1))).longValue();
    int nanos = ((Integer) held.getField(held.getDescriptorForType().findFieldByNumber(2))).intValue();
    if (seconds < FIRST_SECOND || seconds > LAST_SECOND || nanos < 0 || nanos > 999999999) {
      throw new Fault("the column '" + path + "' is no timestamp: " + seconds + " s, " + nanos + " ns");
    }
    return Instant.ofEpochSecond(seconds, nanos / 1000 * 1000L);
  }

  private static Message built(Descriptors.Descriptor type, Row row, StructType columns) {
    DynamicMessage.Builder builder = DynamicMessage.newBuilder(type);
    String[] names = columns.fieldNames();
    for (int i = 0; i < names.length; i++) {
      Object held = row.get(i);
      Descriptors.FieldDescriptor field = type.findFieldByName(names[i]);
      if (held == null) {
        if (field.hasPresence() || field.isRepeated()) continue;
        throw new IllegalArgumentException("the field " + field.getFullName() + " can't be null, because it is neither "
            + "optional nor in a oneof: give it a value, as with coalesce, or make it optional");
      }
      DataType kind = columns.fields()[i].dataType();
      if (field.isMapField()) {
        Descriptors.FieldDescriptor key = field.getMessageType().findFieldByNumber(1);
        Descriptors.FieldDescriptor value = field.getMessageType().findFieldByNumber(2);
        Iterator several = scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map) held).entrySet().iterator();
        while (several.hasNext()) {
          Map.Entry each = (Map.Entry) several.next();
          if (each.getValue() == null) throw new IllegalArgumentException("a message's map has no null: column " + names[i]);
          DynamicMessage.Builder entry = DynamicMessage.newBuilder(field.getMessageType());
          entry.setField(key, written(key, each.getKey(), ((MapType) kind).keyType()));
          entry.setField(value, written(value, each.getValue(), ((MapType) kind).valueType()));
          builder.addRepeatedField(field, entry.build());
        }
      } else if (field.isRepeated()) {
        Iterator several = scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Seq) held).iterator();
        while (several.hasNext()) {
          Object each = several.next();
          if (each == null) throw new IllegalArgumentException("a message's list has no null: column " + names[i]);
          builder.addRepeatedField(field, written(field, each, ((ArrayType) kind).elementType()));
        }
      } else {
        builder.setField(field, written(field, held, kind));
      }
    }
    return builder.build();
  }

  private static Object written(Descriptors.FieldDescriptor field, Object held, DataType type) {
    Descriptors.FieldDescriptor.Type kind = field.getType();
    if (kind == Descriptors.FieldDescriptor.Type.UINT32 || kind == Descriptors.FieldDescriptor.Type.FIXED32) {
      long number = ((Long) held).longValue();
      if (number < 0 || number > 0xffffffffL) throw outOfRange(field, held);
      return Integer.valueOf((int) number);
    }
    if (kind == Descriptors.FieldDescriptor.Type.UINT64 || kind == Descriptors.FieldDescriptor.Type.FIXED64) {
      BigInteger number = ((BigDecimal) held).toBigIntegerExact();
      if (number.signum() < 0 || number.bitLength() > 64) throw outOfRange(field, held);
      return Long.valueOf(number.longValue());
    }
    if (held instanceof byte[]) return ByteString.copyFrom((byte[]) held);
    if (field.getJavaType() == Descriptors.FieldDescriptor.JavaType.ENUM) {
      Object found = field.getEnumType().findValueByName((String) held);
      if (found == null) throw outOfRange(field, held);
      return found;
    }
    if (type instanceof TimestampType) return timestamp(field.getMessageType(), held);
    if (held instanceof Row) return built(field.getMessageType(), (Row) held, (StructType) type);
    return held;
  }

  private static RuntimeException outOfRange(Descriptors.FieldDescriptor field, Object held) {
    return new IllegalArgumentException("the field " + field.getFullName() + " can't hold " + held);
  }

  private static Message timestamp(Descriptors.Descriptor type, Object held) {
    long micros = held instanceof Instant ? DateTimeUtils.instantToMicros((Instant) held)
        : DateTimeUtils.fromJavaTimestamp((java.sql.Timestamp) held);
    DynamicMessage.Builder builder = DynamicMessage.newBuilder(type);
    builder.setField(type.findFieldByNumber(1), Long.valueOf(Math.floorDiv(micros, 1000000L)));
    builder.setField(type.findFieldByNumber(2), Integer.valueOf((int) Math.floorMod(micros, 1000000L) * 1000));
    return builder.build();
  }
}
