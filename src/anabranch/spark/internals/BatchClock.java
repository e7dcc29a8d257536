package anabranch;

import java.lang.reflect.Field;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.util.Clock;

/**
 * Gives a lane's query a clock that never goes back. The query gets the clock before it plans its first batch, because
 * Spark calls the listeners of a query's start in the query's own thread. (Compiled by Janino: no generics, no
 * lambdas.)
 */
public final class BatchClock extends StreamingQueryListener {
    private final SparkSession session;
    private final ConcurrentHashMap due = new ConcurrentHashMap();
    private final ConcurrentHashMap failures = new ConcurrentHashMap();

    public BatchClock(SparkSession session) {
        this.session = session;
    }

    /** Gives the next query of this name a clock whose time begins at {@code since} (Unix ms) or later. */
    public void expect(String name, long since) {
        failures.remove(name);
        due.put(name, new Time(since));
    }

    /** Why the query of this name, which has started, didn't get its clock; empty if the query got the clock. */
    public String failure(String name) {
        if (due.remove(name) != null) {
            return "Spark didn't tell of its start";
        }
        Object failure = failures.remove(name);
        return failure == null ? "" : (String) failure;
    }

    public void onQueryStarted(StreamingQueryListener.QueryStartedEvent event) {
        Object clock = event.name() == null ? null : due.remove(event.name());
        if (clock == null) {
            return;
        }
        try {
            StreamingQuery query = session.streams().get(event.id());
            Object execution = query.getClass().getMethod("streamingQuery", new Class[0]).invoke(query, new Object[0]);
            Field field = field(execution.getClass(), "triggerClock");
            field.setAccessible(true);
            field.set(execution, clock);
        } catch (Exception error) {
            failures.put(event.name(), error.toString());
        }
    }

    public void onQueryProgress(StreamingQueryListener.QueryProgressEvent event) {
    }

    public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent event) {
    }

    private static Field field(Class of, String name) throws NoSuchFieldException {
        for (Class each = of; each != null; each = each.getSuperclass()) {
            try {
                return each.getDeclaredField(name);
            } catch (NoSuchFieldException inherited) {
                continue;
            }
        }
        throw new NoSuchFieldException(name);
    }

    /** The clock of one query. Its rule is the same as in event_time/batch_time.py. */
    public static final class Time implements Clock {
        private static final double PACE = 0.9;
        private double reached;
        private long at;

        public Time(long since) {
            reached = since;
            at = System.nanoTime();
        }

        public synchronized long getTimeMillis() {
            long now = System.nanoTime();
            reached = Math.max((double) System.currentTimeMillis(), reached + PACE * (now - at) / 1e6);
            at = now;
            return (long) reached;
        }

        public long nanoTime() {
            return System.nanoTime();
        }

        public long waitTillTime(long target) {
            long now = getTimeMillis();
            while (now < target) {
                try {
                    Thread.sleep(Math.min(target - now, 1000L));
                } catch (InterruptedException stopped) {
                    sneak(stopped);
                }
                now = getTimeMillis();
            }
            return now;
        }

        /** Throws the exception undeclared, as Spark's own clock does. Spark then ends the query in an orderly way. */
        private static void sneak(InterruptedException stopped) {
            org.apache.spark.unsafe.Platform.throwException(stopped);
        }
    }
}
