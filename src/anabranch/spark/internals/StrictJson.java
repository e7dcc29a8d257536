package anabranch;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import java.io.IOException;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Reads a JSON value by a declared schema, or returns the reason why the value can't be read. docs/reference/values.md
 * has the rules.
 *
 * Spark's from_json guesses: it ignores text after the document, uses the last of two fields with the same name, rounds
 * decimals, and reads 10:15 as a time today. Janino compiles this file when a session first needs it, so the file uses
 * only the Java that Janino supports: no lambdas, no generics.
 */
public final class StrictJson implements UDF1, Serializable {
  static final int BOOLEAN = 0, INTEGER = 1, FLOAT = 2, DOUBLE = 3, DECIMAL = 4, STRING = 5, BINARY = 6, DATE = 7;
  static final int TIMESTAMP = 8, TIMESTAMP_NTZ = 9, ARRAY = 10, MAP = 11, STRUCT = 12;

  static final int MOST_NESTED = 1000, SHOWN = 80;
  static final long FIRST_SECOND = -62135596800L, LAST_SECOND = 253402300799L;

  static final JsonFactory STRICT = factory(false), WITH_NAN = factory(true);

  /** The type of a column. If the type is nested, it includes the types of its parts. */
  static final class Kind implements Serializable {
    int type;
    String name;
    int bits, precision, scale;
    String readAs = "";
    Kind element;
    Kind[] fields;
    String[] names;
    boolean[] required;
    /** The index of each field in the row; -1 for a field that is checked, but left out of the row. */
    int[] places;
    int width;
    HashMap index;
  }

  /** Why a value can't be read. */
  static final class Fault extends RuntimeException {
    Fault(String message) { super(message, null, false, false); }
  }

  private final Kind root;
  private final boolean array, nan, explains;

  /**
   * @param declared the declared columns, all of which are checked.
   * @param wanted the names of the columns of the row, in order.
   * @param readAs how to read the columns that aren't read as their types imply, by the column's name.
   * @param array whether the value must be an array of the declared columns, rather than an object.
   * @param explains whether to return, instead of the row, the reason why a value can't be read, or null if it can.
   */
  public StrictJson(StructType declared, ArrayList wanted, Map readAs, boolean array, boolean explains) {
    this.array = array;
    this.explains = explains;
    root = kind(declared);
    boolean anyNan = array;
    for (int i = 0; i < root.names.length; i++) {
      root.places[i] = wanted.indexOf(root.names[i]);
      if (readAs.containsKey(root.names[i])) {
        root.fields[i].readAs = (String) readAs.get(root.names[i]);
        anyNan = anyNan || root.fields[i].readAs.equals("nan-is-null");
      }
    }
    root.width = wanted.size();
    nan = anyNan;
  }

  public Object call(Object value) {
    byte[] bytes = (byte[]) value;
    if (array && bytes == null) return null;
    try {
      Object row = read(bytes);
      return explains ? null : row;
    } catch (Fault fault) {
      return explains ? fault.getMessage() : null;
    } catch (StreamConstraintsException error) {
      return explains ? "the value is beyond what is read: " + firstLine(error.getOriginalMessage()) : null;
    } catch (RuntimeException error) {  // no content of a record may stop a lane
      return explains ? "the value can't be read: " + firstLine(String.valueOf(error)) : null;
    } catch (IOException error) {
      return explains ? "the value isn't JSON: " + firstLine(said(error)) : null;
    }
  }

  private static String said(IOException error) {
    if (!(error instanceof com.fasterxml.jackson.core.JsonProcessingException)) return String.valueOf(error.getMessage());
    com.fasterxml.jackson.core.JsonProcessingException at = (com.fasterxml.jackson.core.JsonProcessingException) error;
    String where = at.getLocation() == null ? "" : ", at byte " + at.getLocation().getByteOffset();
    return at.getOriginalMessage() + where;
  }

  private static String firstLine(String text) {
    int end = text.indexOf('\n');
    return shortened(end < 0 ? text : text.substring(0, end), 300);
  }

  private Row read(byte[] bytes) throws IOException {
    if (bytes == null) throw new Fault("the value is null");
    boolean escapes = checkText(bytes);
    JsonParser parser = (nan ? WITH_NAN : STRICT).createParser(bytes);
    try {
      JsonToken first = parser.nextToken();
      if (first != (array ? JsonToken.START_ARRAY : JsonToken.START_OBJECT)) {
        String article = array ? "an array" : "an object";
        throw new Fault("the value is JSON, but not " + article + ": " + shown(parser, bytes));
      }
      Reading reading = new Reading(parser, bytes, escapes, array);
      Object row = array ? reading.tuple(root) : reading.struct(root, null);
      if (parser.nextToken() != null) {
        throw new Fault("the value goes on behind the end of its JSON: " + shown(parser, bytes));
      }
      return (Row) row;
    } finally {
      parser.close();
    }
  }

  /**
   * Whether a value contains backslashes. Throws a Fault if the value isn't UTF-8, consists of nothing but whitespace,
   * or begins with something that JSON doesn't allow.
   */
  private static boolean checkText(byte[] bytes) {
    int all = 0;
    boolean escapes = false;
    for (int i = 0; i < bytes.length; i++) {
      byte each = bytes[i];
      all |= each;
      if (each == '\\') escapes = true;
    }
    if (all < 0) checkUtf8(bytes);
    // If some of the first bytes are zero, Jackson takes the value for UTF-16 or UTF-32.
    for (int i = 0; i < Math.min(4, bytes.length); i++) {
      if (bytes[i] == 0) throw new Fault("the value isn't JSON: byte 0x00 at byte " + i);
    }
    boolean empty = true;
    for (int i = 0; i < bytes.length && empty; i++) {
      byte each = bytes[i];
      empty = each == ' ' || each == '\n' || each == '\r' || each == '\t';
    }
    if (empty) throw new Fault("the value is empty");
    return escapes;
  }

  private static void checkUtf8(byte[] bytes) {
    if (bytes.length > 2 && bytes[0] == (byte) 0xef && bytes[1] == (byte) 0xbb && bytes[2] == (byte) 0xbf) {
      throw new Fault("the value begins with a byte order mark, which isn't part of JSON");
    }
    CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder();
    decoder.onMalformedInput(CodingErrorAction.REPORT);
    ByteBuffer in = ByteBuffer.wrap(bytes);
    CharBuffer out = CharBuffer.allocate(Math.min(bytes.length, 4096));
    java.nio.charset.CoderResult result = decoder.decode(in, out, true);
    while (result.isOverflow()) {
      out.clear();
      result = decoder.decode(in, out, true);
    }
    if (result.isError()) {
      String hex = Integer.toHexString(bytes[in.position()] & 0xff);
      throw new Fault("the value isn't UTF-8: byte 0x" + hex + " at byte " + in.position());
    }
  }

  /** The text of the value that a parser has reached, as it is written, but cut short. */
  static String shown(JsonParser parser, byte[] bytes) {
    int from = (int) parser.currentTokenLocation().getByteOffset();
    int until = Math.min(bytes.length, from + 4 * SHOWN + 4);
    try {
      JsonToken token = parser.currentToken();
      if (token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY) parser.skipChildren();
      else parser.finishToken();
      until = Math.min(until, (int) parser.currentLocation().getByteOffset());
    } catch (IOException error) {
      // What follows isn't JSON. It is shown anyway, up to the limit.
    }
    return shortened(new String(bytes, from, until - from, StandardCharsets.UTF_8), SHOWN);
  }

  static String shortened(String text, int most) {
    if (text.length() <= most) return text;
    int end = Character.isHighSurrogate(text.charAt(most - 1)) ? most - 1 : most;
    return text.substring(0, end) + "\u2026";
  }

  private static JsonFactory factory(boolean nan) {
    com.fasterxml.jackson.core.JsonFactoryBuilder builder = new com.fasterxml.jackson.core.JsonFactoryBuilder();
    builder.enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION);
    builder.disable(JsonFactory.Feature.FAIL_ON_SYMBOL_HASH_OVERFLOW);
    builder.disable(JsonFactory.Feature.INTERN_FIELD_NAMES);
    if (nan) builder.enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS);
    StreamReadConstraints.Builder limits = StreamReadConstraints.builder();
    limits.maxNestingDepth(MOST_NESTED).maxNumberLength(1000).maxNameLength(Integer.MAX_VALUE);
    limits.maxStringLength(Integer.MAX_VALUE);
    builder.streamReadConstraints(limits.build());
    return builder.build();
  }

  private static Kind kind(DataType type) {
    Kind made = new Kind();
    made.name = type.simpleString();
    String name = type.typeName();
    if (name.equals("boolean")) made.type = BOOLEAN;
    else if (name.equals("byte")) integer(made, 8);
    else if (name.equals("short")) integer(made, 16);
    else if (name.equals("integer")) integer(made, 32);
    else if (name.equals("long")) integer(made, 64);
    else if (name.equals("float")) made.type = FLOAT;
    else if (name.equals("double")) made.type = DOUBLE;
    else if (name.equals("string")) made.type = STRING;
    else if (name.equals("binary")) made.type = BINARY;
    else if (name.equals("date")) made.type = DATE;
    else if (name.equals("timestamp")) made.type = TIMESTAMP;
    else if (name.equals("timestamp_ntz")) made.type = TIMESTAMP_NTZ;
    else if (type instanceof DecimalType) {
      made.type = DECIMAL;
      made.precision = ((DecimalType) type).precision();
      made.scale = ((DecimalType) type).scale();
    } else if (type instanceof ArrayType) {
      made.type = ARRAY;
      made.element = kind(((ArrayType) type).elementType());
    } else if (type instanceof MapType) {
      made.type = MAP;
      made.element = kind(((MapType) type).valueType());
    } else if (type instanceof StructType) {
      struct(made, (StructType) type);
    } else throw new IllegalArgumentException("no JSON is read as " + name);
    return made;
  }

  private static void integer(Kind made, int bits) {
    made.type = INTEGER;
    made.bits = bits;
  }

  private static void struct(Kind made, StructType type) {
    StructField[] fields = type.fields();
    made.type = STRUCT;
    made.fields = new Kind[fields.length];
    made.names = new String[fields.length];
    made.required = new boolean[fields.length];
    made.places = new int[fields.length];
    made.width = fields.length;
    made.index = new HashMap();
    for (int i = 0; i < fields.length; i++) {
      made.fields[i] = kind(fields[i].dataType());
      made.names[i] = fields[i].name();
      made.required[i] = !fields[i].nullable();
      made.places[i] = i;
      made.index.put(fields[i].name(), Integer.valueOf(i));
    }
  }

  /** The path to the value that is being read: the name of the innermost part, and the path to what contains it. */
  static final class Path {
    final Path above;
    final String step;

    Path(Path above, String step) {
      this.above = above;
      this.step = step;
    }

    String text() {
      if (above == null) return step;
      return above.text() + (step.startsWith("[") ? step : "." + step);
    }
  }

  /** Reads one value. */
  static final class Reading {
    final JsonParser parser;
    final byte[] bytes;
    final boolean escapes, ours;

    /** @param ours whether the value is a message key, in which NaN and infinity are preserved. */
    Reading(JsonParser parser, byte[] bytes, boolean escapes, boolean ours) {
      this.parser = parser;
      this.bytes = bytes;
      this.escapes = escapes;
      this.ours = ours;
    }

    Row struct(Kind kind, Path path) throws IOException {
      Object[] row = new Object[kind.width];
      boolean[] seen = new boolean[kind.names.length];
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        Integer known = (Integer) kind.index.get(parser.currentName());
        parser.nextToken();
        if (known == null) {
          skip();
          continue;
        }
        int i = known.intValue();
        seen[i] = true;
        Object value = value(kind.fields[i], path, kind.names[i], kind.required[i]);
        if (kind.places[i] >= 0) row[kind.places[i]] = value;
      }
      for (int i = 0; i < seen.length; i++) {
        if (!seen[i] && kind.required[i]) {
          throw new Fault("the column '" + new Path(path, kind.names[i]).text() + "' is missing, and may not be null");
        }
      }
      return RowFactory.create(row);
    }

    Row tuple(Kind kind) throws IOException {
      Object[] row = new Object[kind.width];
      int count = 0;
      while (parser.nextToken() != JsonToken.END_ARRAY) {
        if (count == kind.names.length) throw new Fault("it has more than " + count + " parts");
        Object value = value(kind.fields[count], null, kind.names[count], kind.required[count]);
        if (kind.places[count] >= 0) row[kind.places[count]] = value;
        count++;
      }
      if (count < kind.names.length) throw new Fault("it has " + count + " parts, not " + kind.names.length);
      return RowFactory.create(row);
    }

    Object value(Kind kind, Path above, String step, boolean required) throws IOException {
      JsonToken token = parser.currentToken();
      if (token == JsonToken.VALUE_NULL && kind.readAs.equals("json")) token = JsonToken.NOT_AVAILABLE;
      if (token == JsonToken.VALUE_NULL) {
        if (required) throw new Fault("the column '" + new Path(above, step).text() + "' may not be null");
        return null;
      }
      switch (kind.type) {
        case BOOLEAN:
          if (token == JsonToken.VALUE_TRUE) return Boolean.TRUE;
          if (token == JsonToken.VALUE_FALSE) return Boolean.FALSE;
          throw wrong(kind, above, step, null);
        case INTEGER: return integer(kind, token, above, step);
        case FLOAT:
        case DOUBLE: return floating(kind, token, above, step, required);
        case DECIMAL: return decimal(kind, token, above, step);
        case STRING:
          if (kind.readAs.equals("json")) return json();
          if (token != JsonToken.VALUE_STRING) throw wrong(kind, above, step, null);
          return text(parser.getText(), above, step);
        case BINARY: return binary(kind, token, above, step);
        case DATE: return date(kind, token, above, step);
        case TIMESTAMP:
        case TIMESTAMP_NTZ: return timestamp(kind, token, above, step);
        case ARRAY: return array(kind, token, new Path(above, step));
        case MAP: return map(kind, token, new Path(above, step));
        default:
          if (token != JsonToken.START_OBJECT) throw wrong(kind, above, step, null);
          return struct(kind, new Path(above, step));
      }
    }

    Object integer(Kind kind, JsonToken token, Path above, String step) throws IOException {
      if (token == JsonToken.VALUE_NUMBER_FLOAT) {
        throw wrong(kind, above, step, "it is written with a fraction or an exponent");
      }
      if (token != JsonToken.VALUE_NUMBER_INT) throw wrong(kind, above, step, null);
      boolean fits = parser.getNumberType() != JsonParser.NumberType.BIG_INTEGER;
      long value = fits ? parser.getLongValue() : 0L;
      if (!fits || value >> (kind.bits - 1) != value >> 63) throw wrong(kind, above, step, "it is out of range");
      switch (kind.bits) {
        case 8: return Byte.valueOf((byte) value);
        case 16: return Short.valueOf((short) value);
        case 32: return Integer.valueOf((int) value);
        default: return Long.valueOf(value);
      }
    }

    Object floating(Kind kind, JsonToken token, Path above, String step, boolean required) throws IOException {
      boolean number = token == JsonToken.VALUE_NUMBER_FLOAT || token == JsonToken.VALUE_NUMBER_INT;
      if (token == JsonToken.VALUE_STRING || (number && parser.isNaN())) {
        String text = parser.getText();
        boolean known = text.equals("NaN") || text.equals("Infinity") || text.equals("-Infinity");
        if (known && ours) {
          double value = text.equals("NaN") ? Double.NaN
              : text.equals("Infinity") ? Double.POSITIVE_INFINITY : Double.NEGATIVE_INFINITY;
          return kind.type == DOUBLE ? (Object) Double.valueOf(value) : (Object) Float.valueOf((float) value);
        }
        if (known && kind.readAs.equals("nan-is-null")) {
          if (required) throw new Fault("the column '" + new Path(above, step).text() + "' may not be null");
          return null;
        }
        if (known) throw wrong(kind, above, step, "to read it as null, declare read_as={'" + step + "': 'nan-is-null'}");
      }
      if (!number || parser.isNaN()) throw wrong(kind, above, step, null);
      if (kind.type == DOUBLE) {
        double value = parser.getDoubleValue();
        if (Double.isInfinite(value)) throw wrong(kind, above, step, "it is out of range");
        if (value == 0 && parser.getText().charAt(0) == '-') value = -0.0;  // Jackson's integer zero has no sign
        return Double.valueOf(value);
      }
      float value = Float.parseFloat(parser.getText());
      if (Float.isInfinite(value)) throw wrong(kind, above, step, "it is out of range");
      return Float.valueOf(value);
    }

    Object decimal(Kind kind, JsonToken token, Path above, String step) throws IOException {
      boolean number = (token == JsonToken.VALUE_NUMBER_INT || token == JsonToken.VALUE_NUMBER_FLOAT) && !parser.isNaN();
      if (!number && token != JsonToken.VALUE_STRING) throw wrong(kind, above, step, null);
      String text = parser.getText();
      if (!number && !isPlainNumber(text)) throw wrong(kind, above, step, "as text, it isn't a plain decimal number");
      BigDecimal value;
      try {
        value = new BigDecimal(text);
      } catch (ArithmeticException error) {
        throw wrong(kind, above, step, "it is out of range");
      } catch (NumberFormatException error) {
        throw wrong(kind, above, step, "it is out of range");
      }
      if (value.signum() == 0) return BigDecimal.ZERO.setScale(kind.scale);
      BigDecimal least = value.stripTrailingZeros();
      if (least.scale() > kind.scale) throw wrong(kind, above, step, "it has too many digits after the decimal point");
      if ((long) least.precision() - least.scale() > kind.precision - kind.scale) {
        throw wrong(kind, above, step, "it is out of range");
      }
      return least.setScale(kind.scale);
    }

    private static boolean isPlainNumber(String text) {
      int length = text.length();
      int at = length > 0 && text.charAt(0) == '-' ? 1 : 0;
      if (length > 1000 || at == length) return false;
      if (text.charAt(at) == '0' && at + 1 < length && text.charAt(at + 1) != '.') return false;
      int point = -1;
      for (int i = at; i < length; i++) {
        char each = text.charAt(i);
        if (each == '.' && point < 0 && i > at && i + 1 < length) point = i;
        else if (each < '0' || each > '9') return false;
      }
      return true;
    }

    String text(String text, Path above, String step) {
      if (!escapes) return text;
      for (int i = 0; i < text.length(); i++) {
        char each = text.charAt(i);
        if (!Character.isSurrogate(each)) continue;
        if (Character.isHighSurrogate(each) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))) {
          i++;
          continue;
        }
        String code = Integer.toHexString(each);
        String where = new Path(above, step).text();
        throw new Fault("the column '" + where + "' has half of a character: \\u" + code + " at character " + i);
      }
      return text;
    }

    /** The text of a value of any type, as it is written. */
    String json() throws IOException {
      int from = (int) parser.currentTokenLocation().getByteOffset();
      skip();
      parser.finishToken();
      int until = (int) parser.currentLocation().getByteOffset();
      return new String(bytes, from, until - from, StandardCharsets.UTF_8).trim();
    }

    Object binary(Kind kind, JsonToken token, Path above, String step) throws IOException {
      if (token != JsonToken.VALUE_STRING) throw wrong(kind, above, step, null);
      String text = parser.getText();
      try {
        if (text.length() % 4 == 0) return Base64.getDecoder().decode(text);
      } catch (IllegalArgumentException error) {
        // Handled below, like a wrong length.
      }
      throw wrong(kind, above, step, "bytes are written in base64");
    }

    Object date(Kind kind, JsonToken token, Path above, String step) throws IOException {
      boolean days = kind.readAs.equals("epoch-days");
      if (days && token == JsonToken.VALUE_NUMBER_INT) {
        boolean fits = parser.getNumberType() == JsonParser.NumberType.INT;
        long value = fits ? parser.getLongValue() : Long.MAX_VALUE;
        if (!fits || value < FIRST_SECOND / 86400 || value > LAST_SECOND / 86400) {
          throw wrong(kind, above, step, "years go from 0001 to 9999");
        }
        return LocalDate.ofEpochDay(value);
      }
      if (days) throw wrong(kind, above, step, "it is declared as a number of days");
      if (token != JsonToken.VALUE_STRING) {
        String cure = "dates are written as \"2013-01-31\"; for days since 1970 declare read_as={'" + step
            + "': 'epoch-days'}";
        throw wrong(kind, above, step, cure);
      }
      String text = parser.getText();
      LocalDate value = text.length() == 10 ? Times.date(text) : null;
      if (value == null) throw wrong(kind, above, step, "dates are written as \"2013-01-31\"");
      return value;
    }

    Object timestamp(Kind kind, JsonToken token, Path above, String step) throws IOException {
      boolean zoned = kind.type == TIMESTAMP;
      if (kind.readAs.length() > 0) {
        if (token == JsonToken.VALUE_STRING || parser.isNaN()) {
          throw wrong(kind, above, step, "it is declared as a number, " + kind.readAs);
        }
        if (token == JsonToken.VALUE_NUMBER_INT || token == JsonToken.VALUE_NUMBER_FLOAT) {
          return epoch(kind, above, step, zoned);
        }
        throw wrong(kind, above, step, null);
      }
      if (token == JsonToken.VALUE_NUMBER_INT || token == JsonToken.VALUE_NUMBER_FLOAT) {
        String cure = "if it counts from 1970, declare read_as={'" + step
            + "': 'epoch-seconds'}, 'epoch-millis' or 'epoch-micros'";
        throw wrong(kind, above, step, cure);
      }
      if (token != JsonToken.VALUE_STRING) throw wrong(kind, above, step, null);
      Object value = Times.timestamp(parser.getText(), zoned);
      if (value == null) {
        String example = zoned ? "\"2013-01-31T05:29:00Z\"" : "\"2013-01-31T05:29:00\", without a zone";
        throw wrong(kind, above, step, "times are written as " + example);
      }
      return value;
    }

    private Object epoch(Kind kind, Path above, String step, boolean zoned) throws IOException {
      int digits = kind.readAs.equals("epoch-seconds") ? 0 : kind.readAs.equals("epoch-millis") ? 3 : 6;
      BigDecimal value;
      try {
        value = new BigDecimal(parser.getText());
      } catch (NumberFormatException error) {
        throw wrong(kind, above, step, "it is out of range");
      }
      if (value.signum() != 0) value = value.stripTrailingZeros();
      if ((long) value.precision() - value.scale() > 20 || value.scale() > 1000) {
        throw wrong(kind, above, step, "it is out of range");
      }
      BigDecimal micros = value.scaleByPowerOfTen(6 - digits).setScale(0, RoundingMode.FLOOR);
      if (micros.precision() > 18) throw wrong(kind, above, step, "years go from 0001 to 9999");
      BigDecimal[] parts = micros.divideAndRemainder(BigDecimal.valueOf(1000000L));
      long seconds = parts[0].longValueExact();
      if (parts[1].signum() < 0) seconds--;
      if (seconds < FIRST_SECOND || seconds > LAST_SECOND) throw wrong(kind, above, step, "years go from 0001 to 9999");
      long nanos = Math.floorMod(parts[1].longValueExact(), 1000000L) * 1000L;
      if (zoned) return Instant.ofEpochSecond(seconds, nanos);
      return LocalDateTime.ofEpochSecond(seconds, (int) nanos, ZoneOffset.UTC);
    }

    Object array(Kind kind, JsonToken token, Path path) throws IOException {
      if (token != JsonToken.START_ARRAY) throw wrong(kind, path.above, path.step, null);
      ArrayList values = new ArrayList();
      while (parser.nextToken() != JsonToken.END_ARRAY) {
        values.add(value(kind.element, path, "[" + values.size() + "]", false));
      }
      return values;
    }

    Object map(Kind kind, JsonToken token, Path path) throws IOException {
      if (token != JsonToken.START_OBJECT) throw wrong(kind, path.above, path.step, null);
      LinkedHashMap values = new LinkedHashMap();
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        String name = text(parser.currentName(), path.above, path.step);
        parser.nextToken();
        values.put(name, value(kind.element, path, name, false));
      }
      return values;
    }

    /** Skips a value that no column needs. Even this value must be JSON. */
    void skip() throws IOException {
      int depth = 0;
      while (true) {
        JsonToken token = parser.currentToken();
        if (token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY) depth++;
        else if (token == JsonToken.END_OBJECT || token == JsonToken.END_ARRAY) depth--;
        else if (token == JsonToken.VALUE_NUMBER_FLOAT && parser.isNaN()) {
          throw new Fault("the value isn't JSON: " + shown(parser, bytes) + " is no number of JSON");
        }
        if (depth == 0) {
          parser.finishToken();
          return;
        }
        parser.nextToken();
      }
    }

    private Fault wrong(Kind kind, Path above, String step, String why) {
      String value = shown(parser, bytes);
      String told = "the column '" + shortened(new Path(above, step).text(), 200) + "' is no " + kind.name + ": " + value;
      return new Fault(why == null ? told : told + " (" + why + ")");
    }
  }

  /** Reads dates and times of ISO 8601, in the forms that docs/reference/values.md lists. Other texts become null. */
  static final class Times {
    static LocalDate date(String text) {
      if (text.charAt(4) != '-' || text.charAt(7) != '-') return null;
      int year = number(text, 0, 4), month = number(text, 5, 7), day = number(text, 8, 10);
      if (year < 1 || month < 0 || day < 0) return null;
      try {
        return LocalDate.of(year, month, day);
      } catch (DateTimeException error) {
        return null;
      }
    }

    static Object timestamp(String text, boolean zoned) {
      int length = text.length();
      if (length < 16 || length > 40 || (text.charAt(10) != 'T' && text.charAt(10) != ' ')) return null;
      LocalDate date = date(text);
      int hour = number(text, 11, 13), minute = number(text, 14, 16), second = 0, nanos = 0, at = 16;
      if (date == null || text.charAt(13) != ':' || hour < 0 || hour > 23 || minute < 0 || minute > 59) return null;
      if (at < length && text.charAt(at) == ':') {
        if (length < 19) return null;
        second = number(text, 17, 19);
        if (second < 0 || second > 59) return null;
        at = 19;
        if (at < length && text.charAt(at) == '.') {
          int from = ++at;
          while (at < length && text.charAt(at) >= '0' && text.charAt(at) <= '9') at++;
          if (at == from || at - from > 9) return null;
          int micros = number(text, from, Math.min(at, from + 6));
          for (int digits = at - from; digits < 6; digits++) micros *= 10;
          nanos = micros * 1000;
        }
      }
      int offset = zoned ? offset(text, at) : at == length ? 0 : Integer.MIN_VALUE;
      if (offset == Integer.MIN_VALUE) return null;
      LocalDateTime local = date.atTime(hour, minute, second, nanos);
      if (!zoned) return local;
      long seconds = local.toEpochSecond(ZoneOffset.UTC) - offset;
      if (seconds < FIRST_SECOND || seconds > LAST_SECOND) return null;
      return Instant.ofEpochSecond(seconds, nanos);
    }

    /** The zone at the end of a text, in seconds east of Greenwich. Integer.MIN_VALUE if it can't be read. */
    private static int offset(String text, int at) {
      int length = text.length();
      if (at == length || (at + 1 == length && text.charAt(at) == 'Z')) return 0;
      char sign = text.charAt(at);
      boolean colon = at + 6 == length && text.charAt(at + 3) == ':';
      if ((sign != '+' && sign != '-') || !(colon || at + 5 == length)) return Integer.MIN_VALUE;
      int hours = number(text, at + 1, at + 3), minutes = number(text, length - 2, length);
      if (hours < 0 || minutes < 0 || minutes > 59 || hours * 60 + minutes > 18 * 60) return Integer.MIN_VALUE;
      int seconds = (hours * 60 + minutes) * 60;
      return sign == '-' ? -seconds : seconds;
    }

    /** The number that these characters represent; -1 if one of them isn't a digit. */
    private static int number(String text, int from, int until) {
      int value = 0;
      for (int i = from; i < until; i++) {
        char each = text.charAt(i);
        if (each < '0' || each > '9') return -1;
        value = value * 10 + (each - '0');
      }
      return value;
    }
  }
}
