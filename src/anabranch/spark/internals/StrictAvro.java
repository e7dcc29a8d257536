package anabranch;

import java.io.Serializable;
import java.math.BigInteger;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.ByteBuffer;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.spark.sql.api.java.UDF1;

/**
 * Returns the reason why bytes aren't exactly one Avro value of a schema; null if they are. docs/reference/values.md
 * has the rules.
 *
 * Spark's from_avro ignores bytes after the value, accepts any bytes as text and any number as a time, and allocates as
 * much memory as a corrupt length demands. Janino compiles this file, as it does StrictJson.java.
 */
public final class StrictAvro implements UDF1, Serializable {
  static final String TEXT = "anabranch-text";  // as in formats/avro_schema.py
  static final int MOST_NESTED = 1000, MOST_EMPTY = 1000000;
  static final long FIRST_SECOND = -62135596800L, LAST_SECOND = 253402300799L;

  /** Why a value can't be read. */
  static final class Fault extends RuntimeException {
    Fault(String message) { super(message, null, false, false); }
  }

  private final String text;
  private final int head;
  private transient Schema schema;

  /** @param head how many bytes precede the value. */
  public StrictAvro(String text, int head) {
    this.text = text;
    this.head = head;
  }

  public Object call(Object value) {
    if (value == null) return "the value is null";
    if (schema == null) schema = new Schema.Parser().parse(text);
    Reading reading = new Reading((byte[]) value, head);
    try {
      reading.check(schema, "", 0);
      return reading.at == reading.bytes.length ? null
          : "the value goes on behind its end: " + (reading.bytes.length - reading.at) + " bytes more";
    } catch (Fault fault) {
      return fault.getMessage();
    } catch (RuntimeException error) {  // no content of a record may stop a lane
      return "it can't be read: " + error;
    }
  }

  /** Checks one value. */
  static final class Reading {
    final byte[] bytes;
    int at;
    long left;

    Reading(byte[] bytes, int at) {
      this.bytes = bytes;
      this.at = at;
      left = (long) bytes.length + MOST_EMPTY;
    }

    void check(Schema schema, String path, int depth) {
      if (depth > MOST_NESTED) throw new Fault("the value is nested deeper than " + MOST_NESTED);
      if (--left < 0) throw new Fault(column(path) + " has more elements than are read");
      switch (schema.getType()) {
        case NULL: return;
        case BOOLEAN:
          byte each = bytes[skip(1, path)];
          if (each != 0 && each != 1) throw new Fault(column(path) + " is no boolean: byte " + each);
          return;
        case INT: checkTime(schema, number(path, 5), path); return;
        case LONG: checkTime(schema, number(path, 10), path); return;
        case FLOAT: skip(4, path); return;
        case DOUBLE: skip(8, path); return;
        case STRING: checkText(length(path), path); return;
        case BYTES: checkBytes(schema, length(path), path); return;
        case FIXED: checkDecimal(schema, schema.getFixedSize(), path); return;
        case ENUM: index(schema.getEnumSymbols().size(), path); return;
        case UNION: check((Schema) schema.getTypes().get(index(schema.getTypes().size(), path)), path, depth + 1); return;
        case ARRAY:
          for (long count = block(path); count != 0; count = block(path)) {
            for (long i = 0; i < count; i++) check(schema.getElementType(), path + "[]", depth + 1);
          }
          return;
        case MAP:
          for (long count = block(path); count != 0; count = block(path)) {
            for (long i = 0; i < count; i++) {
              checkText(length(path), path);
              check(schema.getValueType(), path + "{}", depth + 1);
            }
          }
          return;
        default:
          for (int i = 0; i < schema.getFields().size(); i++) {
            Schema.Field field = (Schema.Field) schema.getFields().get(i);
            check(field.schema(), path.length() == 0 ? field.name() : path + "." + field.name(), depth + 1);
          }
      }
    }

    private static String column(String path) {
      return path.length() == 0 ? "the value" : "the column '" + path + "'";
    }

    /** Skips the next {@code count} bytes, and returns the position at which they begin. */
    private int skip(long count, String path) {
      if (count > bytes.length - at) throw new Fault("the value ends within " + column(path));
      int begin = at;
      at += (int) count;
      return begin;
    }

    private long number(String path, int most) {
      long value = 0;
      for (int i = 0; i < most; i++) {
        byte each = bytes[skip(1, path)];
        value |= (long) (each & 0x7f) << (7 * i);
        if (each >= 0) {
          if (most == 5 && value >>> 32 != 0) break;
          if (i == 9 && each > 1) break;
          return (value >>> 1) ^ -(value & 1);
        }
      }
      throw new Fault(column(path) + " is out of range");
    }

    private int length(String path) {
      long found = number(path, 10);
      if (found < 0 || found > bytes.length - at) throw new Fault("the value ends within " + column(path));
      return (int) found;
    }

    private int index(int several, String path) {
      long found = number(path, 5);
      if (found < 0 || found >= several) throw new Fault(column(path) + " is none of its " + several + " kinds: " + found);
      return (int) found;
    }

    private long block(String path) {
      long count = number(path, 10);
      if (count >= 0) return count;
      if (count == Long.MIN_VALUE) throw new Fault(column(path) + " is out of range");
      number(path, 10);
      return -count;
    }

    private void checkText(int length, String path) {
      int begin = skip(length, path);
      boolean ascii = true;
      for (int i = begin; i < at && ascii; i++) ascii = bytes[i] >= 0;
      if (ascii) return;
      try {
        StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes, begin, length));
      } catch (CharacterCodingException error) {
        throw new Fault(column(path) + " isn't UTF-8");
      }
    }

    private void checkBytes(Schema schema, int length, String path) {
      int begin = at;
      checkDecimal(schema, length, path);
      if (!schema.propsContainsKey(TEXT)) return;
      at = begin;
      checkText(length, path);
    }

    private void checkDecimal(Schema schema, int length, String path) {
      int begin = skip(length, path);
      LogicalType type = schema.getLogicalType();
      if (!(type instanceof LogicalTypes.Decimal)) return;
      int precision = ((LogicalTypes.Decimal) type).getPrecision();
      byte[] held = new byte[length];
      System.arraycopy(bytes, begin, held, 0, length);
      if (length == 0 || new BigInteger(held).abs().compareTo(BigInteger.TEN.pow(precision)) >= 0) {
        throw new Fault(column(path) + " is no decimal of " + precision + " digits");
      }
    }

    private void checkTime(Schema schema, long value, String path) {
      LogicalType type = schema.getLogicalType();
      if (type == null) return;
      String name = type.getName();
      long unit = name.equals("date") ? 0 : name.endsWith("timestamp-millis") ? 1000L
          : name.endsWith("timestamp-micros") ? 1000000L : -1;
      if (unit < 0) return;
      boolean early = unit == 0 ? value < FIRST_SECOND / 86400 : value < FIRST_SECOND * unit;
      boolean late = unit == 0 ? value > LAST_SECOND / 86400 : value >= (LAST_SECOND + 1) * unit;
      if (early || late) throw new Fault(column(path) + " is no " + name + ": " + value + " (years go from 0001 to 9999)");
    }
  }
}
