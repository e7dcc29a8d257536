package anabranch;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.commons.io.IOUtils;
import org.apache.commons.io.output.TeeOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;

/**
 * Writes and reads the files of a checkpoint that is not on a local disk, for Spark and for anabranch itself.
 *
 * S3 can't rename files. So a file in S3 is written under its final name, and appears, complete, when it is closed. If
 * a file must be new, S3 itself refuses to replace an existing file (If-None-Match). In other file systems, files are
 * normally written as Spark writes them: under another name, and then renamed.
 *
 * Once this process has claimed a folder, it can write there only as long as its lease lasts. If the process was frozen
 * for longer than that, it can't write when it wakes up. Janino compiles this file, as it does StrictJson.java.
 */
public class CheckpointFiles implements CheckpointFileManager {
  private static final String EXCLUSIVE = "fs.option.create.conditional.overwrite";
  private static final String WRITER = "anabranch-writer";
  private static final String[] REFUSALS = {
    "Status Code: 412", "PreconditionFailed", "Status Code: 409", "ConditionalRequestConflict"
  };
  /** How many times a write is repeated if S3 refuses it although no object exists, and the first pause in ms. */
  private static final int AGAIN = 6;
  private static final long FIRST_PAUSE = 100;
  /** By folder: until when this process may write there, on System.nanoTime() and on System.currentTimeMillis(). */
  private static final Map leases = new ConcurrentHashMap();
  /** By folder: the log entry that this process has last created in S3, until its text has been asked for. */
  private static final Map entries = new ConcurrentHashMap();

  private final Path path;
  private final FileSystem fs;
  private final CheckpointFileManager renaming;

  public CheckpointFiles(Path path, Configuration conf) throws IOException {
    this.path = path;
    this.fs = path.getFileSystem(conf);
    this.renaming = isObjectStore(fs) ? null : new FileContextBasedCheckpointFileManager(path, conf);
  }

  public CheckpointFileManager$CancellableFSDataOutputStream createAtomic(Path path, boolean overwrite) {
    try {
      checkLease(path);
      if (renaming != null) return new Leased(renaming.createAtomic(path, overwrite), path);
      return new Whole(fs, path, overwrite, isEntry(path) && !overwrite);
    } catch (IOException error) {
      throw thrown(error);
    }
  }

  public FSDataInputStream open(Path path) {
    try {
      return fs.open(path);
    } catch (IOException error) {
      throw thrown(error);
    }
  }

  public FileStatus[] list(Path path, PathFilter filter) {
    try {
      return fs.listStatus(path, filter);
    } catch (FileNotFoundException none) {
      if (renaming == null) return new FileStatus[0]; // S3 has no empty folders
      throw thrown(none);
    } catch (IOException error) {
      throw thrown(error);
    }
  }

  public FileStatus[] list(Path path) {
    return list(path, new All());
  }

  public void mkdirs(Path path) {
    if (renaming != null) renaming.mkdirs(path);
  }

  public boolean exists(Path path) {
    try {
      return isEntry(path) && renaming == null ? isThere(fs, path) : fs.exists(path);
    } catch (IOException error) {
      throw thrown(error);
    }
  }

  public void delete(Path path) {
    try {
      checkLease(path);
      justWritten(fs, path);
      if (isEntry(path) && renaming == null) remove(fs, path);
      else fs.delete(path, true);
    } catch (FileNotFoundException gone) {
      return;
    } catch (IOException error) {
      throw thrown(error);
    }
  }

  public boolean isLocal() {
    return false;
  }

  public Path createCheckpointDirectory() {
    return renaming == null ? fs.makeQualified(path) : renaming.createCheckpointDirectory();
  }

  public void close() {}

  /** Whether the file system is S3, where a file appears under its final name when it is closed. */
  public static boolean isObjectStore(FileSystem fs) {
    return fs.getClass().getName().startsWith("org.apache.hadoop.fs.s3a.");
  }

  /**
   * Creates a complete file unless it exists, and returns whether it was created. If several processes try this at the
   * same time, only one of them succeeds, provided that the store itself refuses a second object with the same name
   * (S3, GCS), or refuses to rename a file to a name that is taken (HDFS, ABFS).
   */
  public static boolean create(FileSystem fs, Path path, String text) throws IOException {
    checkLease(path);
    try {
      if (isObjectStore(fs)) put(new Whole(fs, path, false, false), text);
      else if ("gs".equals(fs.getUri().getScheme())) put(fs.create(path, false), text);
      else putAndRename(fs, path, text, Options.Rename.NONE);
      return true;
    } catch (FileAlreadyExistsException there) {
      return false;
    }
  }

  /** Writes a file, replacing any existing file. Readers never see an incomplete file. */
  public static void write(FileSystem fs, Path path, String text) throws IOException {
    checkLease(path);
    justWritten(fs, path); // forget the text that is about to be replaced
    if (isObjectStore(fs)) put(new Whole(fs, path, true, false), text);
    else putAndRename(fs, path, text, Options.Rename.OVERWRITE);
  }

  private static void put(FSDataOutputStream stream, String text) throws IOException {
    stream.write(text.getBytes(StandardCharsets.UTF_8));
    stream.close();
  }

  private static void putAndRename(FileSystem fs, Path path, String text, Options.Rename how) throws IOException {
    String unique = UUID.randomUUID().toString().replace("-", "");
    Path part = new Path(path.getParent(), path.getName() + "." + unique + ".part");
    try {
      FSDataOutputStream stream = fs.create(part, true);
      stream.write(text.getBytes(StandardCharsets.UTF_8));
      stream.hsync();
      stream.close();
      checkLease(path); // perhaps this process was frozen while the file was written
      FileContext.getFileContext(fs.getUri(), fs.getConf()).rename(part, path, new Options.Rename[] {how});
    } catch (IOException error) {
      fs.delete(part, false);
      throw error;
    }
  }

  /** The text of a file. */
  public static String read(FileSystem fs, Path path) throws IOException {
    FSDataInputStream stream = fs.open(path);
    try {
      return IOUtils.toString(stream, StandardCharsets.UTF_8);
    } finally {
      stream.close();
    }
  }

  /** Deletes a file, if it exists. */
  public static void deleteFile(FileSystem fs, Path path) throws IOException {
    checkLease(path);
    justWritten(fs, path);
    fs.delete(path, false);
  }

  /** Renames a file, replacing any existing file. */
  public static void rename(FileSystem fs, Path from, Path to) throws IOException {
    checkLease(to);
    justWritten(fs, to);
    FileContext context = FileContext.getFileContext(fs.getUri(), fs.getConf());
    context.rename(from, to, new Options.Rename[] {Options.Rename.OVERWRITE});
  }

  /**
   * The files in a folder and, with {@code below}, in all folders below it. There is a line for each file: its path
   * within the folder, its size, and the time of writing in Unix ms, separated by tabs.
   */
  public static String files(FileSystem fs, Path folder, boolean below) throws IOException {
    StringBuilder found = new StringBuilder();
    String begin = fs.makeQualified(folder).toString() + "/";
    if (below && isObjectStore(fs)) { // one request for a thousand files, whatever their folders
      try {
        RemoteIterator files = fs.listFiles(folder, true);
        while (files.hasNext()) line(found, begin, (FileStatus) files.next());
      } catch (FileNotFoundException none) {
        return found.toString();
      }
    } else {
      list(fs, folder, below, begin, found);
    }
    return found.toString();
  }

  private static void list(FileSystem fs, Path folder, boolean below, String begin, StringBuilder found)
      throws IOException {
    FileStatus[] each;
    try {
      each = fs.listStatus(folder);
    } catch (FileNotFoundException none) {
      return;
    }
    for (int i = 0; i < each.length; i++) {
      if (each[i].isFile()) line(found, begin, each[i]);
      else if (below) list(fs, each[i].getPath(), true, begin, found);
    }
  }

  private static void line(StringBuilder found, String begin, FileStatus file) {
    String path = file.getPath().toString();
    String name = path.startsWith(begin) ? path.substring(begin.length()) : "";
    found.append(name).append('\t').append(file.getLen()).append('\t').append(file.getModificationTime()).append('\n');
  }

  /** The process id of this JVM. */
  public static long processId() {
    return ManagementFactory.getRuntimeMXBean().getPid();
  }

  /** Permits this process to write below a folder for {@code ms} milliseconds. With 0, the permission ends. */
  public static void lease(String folder, long ms) {
    leases.put(folder, new long[] {System.nanoTime() + ms * 1000000L, System.currentTimeMillis() + ms});
    if (ms > 0) return;
    for (Iterator each = entries.keySet().iterator(); each.hasNext(); )
      if (each.next().toString().startsWith(folder + "/")) each.remove();
  }

  /**
   * The text of a log entry that this process has just created in S3. (Reading the entry would take two requests.) The
   * text is returned only once, because the entry may be rewritten later. Null if the text isn't known.
   */
  public static String justWritten(FileSystem fs, Path path) {
    Path full = fs.makeQualified(path);
    Entry last = (Entry) entries.get(full.getParent());
    return last != null && last.path.equals(full) && entries.remove(full.getParent(), last) ? last.text : null;
  }

  /** Throws an exception if this process's lease of the folder that contains a file is over. */
  public static void checkLease(Path path) throws IOException {
    if (leases.isEmpty()) return;
    for (Path each = path; each != null; each = each.getParent()) {
      long[] until = (long[]) leases.get(each.toString());
      if (until != null && isOver(until, System.nanoTime(), System.currentTimeMillis()))
        throw new IOException("ANABRANCH_LEASE_OVER: this process has not renewed its lease of " + each);
    }
  }

  /**
   * Whether a lease is over according to either of two clocks: System.nanoTime() stands still while the machine sleeps,
   * and the time of day can be set back.
   */
  public static boolean isOver(long[] until, long nanos, long ms) {
    return nanos - until[0] > 0 || ms - until[1] > 0;
  }

  /** Whether a file is an entry of a log, that is, whether its name is a number. */
  private static boolean isEntry(Path path) {
    String name = path.getName();
    for (int i = 0; i < name.length(); i++) if (!Character.isDigit(name.charAt(i))) return false;
    return name.length() > 0;
  }

  /** Whether a file exists in S3. A folder of this name isn't looked for, because that would take a second request. */
  private static boolean isThere(FileSystem fs, Path path) throws IOException {
    try {
      Object store = fs.getClass().getMethod("getS3AInternals", new Class[0]).invoke(fs, new Object[0]);
      Class kind = Class.forName("org.apache.hadoop.fs.s3a.S3AInternals", true, fs.getClass().getClassLoader());
      kind.getMethod("getObjectMetadata", new Class[] {Path.class}).invoke(store, new Object[] {path});
      return true;
    } catch (InvocationTargetException error) {
      if (error.getTargetException() instanceof FileNotFoundException) return false;
      throw thrown(error.getTargetException());
    } catch (ReflectiveOperationException error) {
      return fs.exists(path);
    }
  }

  private static void remove(FileSystem fs, Path path) throws IOException {
    BulkDelete several = fs.createBulkDelete(path.getParent());
    try {
      several.bulkDelete(Collections.singletonList(path));
    } finally {
      several.close();
    }
  }

  private static RuntimeException thrown(Throwable error) {
    CheckpointFiles.<RuntimeException>raise(error);
    return null;
  }

  private static <E extends Throwable> void raise(Throwable error) throws E {
    throw (E) error;
  }

  private static class All implements PathFilter {
    public boolean accept(Path path) {
      return true;
    }
  }

  private static class Entry {
    final Path path;
    final String text;

    Entry(Path path, byte[] bytes) {
      this.path = path;
      this.text = new String(bytes, StandardCharsets.UTF_8);
    }
  }

  /** A new file that is renamed when it is closed, provided that the lease of its folder isn't over then. */
  private static class Leased extends CheckpointFileManager$CancellableFSDataOutputStream {
    private final CheckpointFileManager$CancellableFSDataOutputStream stream;
    private final Path path;
    private boolean ended;

    Leased(CheckpointFileManager$CancellableFSDataOutputStream stream, Path path) {
      super(stream);
      this.stream = stream;
      this.path = path;
    }

    public synchronized void close() throws IOException {
      if (ended) return;
      try {
        checkLease(path);
      } catch (IOException over) {
        cancel();
        throw over;
      }
      ended = true;
      stream.close();
    }

    public synchronized void cancel() {
      if (ended) return;
      ended = true;
      stream.cancel();
    }
  }

  /** A new file in S3. The file appears when it is closed. If it is cancelled before that, it never appears. */
  private static class Whole extends CheckpointFileManager$CancellableFSDataOutputStream {
    private final FSDataOutputStream stream;
    private final FileSystem fs;
    private final Path path;
    private final String writer;
    private final ByteArrayOutputStream kept;
    private final boolean isRemembered;
    private boolean ended;

    /** @param isRemembered whether to keep the text for {@link #justWritten}, because it will be asked for next. */
    Whole(FileSystem fs, Path path, boolean overwrite, boolean isRemembered) throws IOException {
      this(fs, path, overwrite, isRemembered, UUID.randomUUID().toString());
    }

    private Whole(FileSystem fs, Path path, boolean overwrite, boolean isRemembered, String writer) throws IOException {
      this(fs, path, isRemembered, writer, kept(overwrite), opened(fs, path, overwrite, writer));
    }

    private Whole(
        FileSystem fs, Path path, boolean isRemembered, String writer, ByteArrayOutputStream kept, OutputStream to) {
      super(kept == null ? to : new TeeOutputStream(to, kept));
      this.fs = fs;
      this.path = path;
      this.writer = writer;
      this.stream = (FSDataOutputStream) to;
      this.kept = kept;
      this.isRemembered = isRemembered;
    }

    private static ByteArrayOutputStream kept(boolean overwrite) {
      return overwrite ? null : new ByteArrayOutputStream();
    }

    private static FSDataOutputStream opened(FileSystem fs, Path path, boolean overwrite, String writer)
        throws IOException {
      FSDataOutputStreamBuilder builder = fs.createFile(path);
      builder.recursive();
      builder.overwrite(overwrite);
      if (overwrite) {
        builder.opt("fs.s3a.create.performance", "true");
      } else {
        builder.must(EXCLUSIVE, "true");
        builder.opt("fs.s3a.create.header." + WRITER, writer);
      }
      return (FSDataOutputStream) builder.build();
    }

    public synchronized void close() throws IOException {
      if (ended) return;
      try {
        checkLease(path); // perhaps this process was frozen while the file was written
      } catch (IOException over) {
        cancel();
        throw over;
      }
      ended = true;
      FSDataOutputStream current = stream;
      for (int tried = 0; !isClosed(current, tried); tried++) {
        checkLease(path);
        current = opened(fs, path, false, writer);
        current.write(kept.toByteArray());
      }
      Path full = fs.makeQualified(path);
      if (isRemembered) entries.put(full.getParent(), new Entry(full, kept.toByteArray()));
    }

    /**
     * Closes the stream, and returns whether the file was written. If it wasn't, S3 has refused the file because of
     * another request at the same time, which left no object. The file must then be written again.
     */
    private boolean isClosed(FSDataOutputStream current, int tried) throws IOException {
      try {
        current.close();
        return true;
      } catch (IOException error) {
        if (kept == null || !isRefused(error)) throw error;
        byte[] noted;
        try {
          noted = (byte[]) fs.getXAttrs(path).get("header." + WRITER);
        } catch (FileNotFoundException none) {
          if (tried >= AGAIN) throw refused(tried, error);
          pause(FIRST_PAUSE << tried);
          return false;
        }
        // S3 may have accepted the file although its answer was lost. In this case, the existing file is ours.
        if (noted != null && writer.equals(new String(noted, StandardCharsets.UTF_8))) return true;
        throw new FileAlreadyExistsException(path + " is there already");
      }
    }

    private IOException refused(int tried, IOException error) {
      String what = path + " doesn't exist, but the store has refused to create it " + (tried + 1) + " times";
      return new IOException(what + " (If-None-Match): see which other programs write or delete objects there", error);
    }

    private static void pause(long ms) throws IOException {
      try {
        Thread.sleep(ms);
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw new InterruptedIOException("interrupted before a file was written again");
      }
    }

    public synchronized void cancel() {
      if (ended) return;
      ended = true;
      stream.abort();
    }

    private static boolean isRefused(Throwable error) {
      for (Throwable each = error; each != null; each = each.getCause()) {
        String text = String.valueOf(each);
        for (int i = 0; i < REFUSALS.length; i++) if (text.contains(REFUSALS[i])) return true;
      }
      return false;
    }
  }
}
