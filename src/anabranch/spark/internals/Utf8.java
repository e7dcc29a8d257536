package anabranch;

import java.io.Serializable;
import java.nio.ByteBuffer;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Returns whether bytes are UTF-8 or null. Spark's is_valid_utf8 examines every byte separately, which takes a sixth of
 * the time for reading and filtering a short text. Most texts are ASCII, and this class checks for ASCII eight bytes at
 * a time.
 */
public final class Utf8 implements UDF1, Serializable {
  static final long HIGH_BITS = 0x8080808080808080L;

  public Object call(Object value) {
    if (value == null) return Boolean.TRUE;
    byte[] bytes = (byte[]) value;
    return Boolean.valueOf(isAscii(bytes) || UTF8String.fromBytes(bytes).isValid());
  }

  private static boolean isAscii(byte[] bytes) {
    ByteBuffer buffer = ByteBuffer.wrap(bytes);
    int whole = bytes.length & ~7;
    long all = 0L;
    for (int i = 0; i < whole; i += 8) all |= buffer.getLong(i);
    for (int i = whole; i < bytes.length; i++) all |= bytes[i];
    return (all & HIGH_BITS) == 0L;
  }
}
