import io.fabric8.kubernetes.api.model.Container;
import io.fabric8.kubernetes.api.model.ContainerStateBuilder;
import io.fabric8.kubernetes.api.model.ContainerStatusBuilder;
import io.fabric8.kubernetes.api.model.EnvVar;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.api.model.PodStatusBuilder;
import io.fabric8.kubernetes.client.NamespacedKubernetesClient;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.server.mock.KubernetesCrudDispatcher;
import io.fabric8.kubernetes.client.server.mock.KubernetesMockServer;
import io.fabric8.mockwebserver.Context;
import io.fabric8.mockwebserver.MockWebServer;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The API of a Kubernetes, and a stand-in for a kubelet that runs pods as processes: MiniKubernetes FOLDER ENTRYPOINT...
 * ENTRYPOINT is what every image runs, with the arguments of the container; a pod runs in a folder of its own. Says the
 * URL of the API, then ends with its input, and all pods with it. A process that ends is seen in its pod's status; a pod
 * that is deleted is ended.
 */
public class MiniKubernetes implements Watcher<Pod> {
  private static final String ADDRESS = "127.0.0.1";
  private static final int KILLED = 137;

  private final File folder;
  private final List<String> entrypoint;
  private final NamespacedKubernetesClient client;
  private final Map<String, Process> processes = new ConcurrentHashMap<>();

  private MiniKubernetes(File folder, List<String> entrypoint, NamespacedKubernetesClient client) {
    this.folder = folder;
    this.entrypoint = entrypoint;
    this.client = client;
  }

  public static void main(String[] words) throws Exception {
    MockWebServer web = new MockWebServer();
    KubernetesMockServer server =
        new KubernetesMockServer(new Context(), web, new HashMap<>(), new KubernetesCrudDispatcher(), false);
    server.init(InetAddress.getByName(ADDRESS), 0);
    List<String> entrypoint = Arrays.asList(words).subList(1, words.length);
    MiniKubernetes kubelet = new MiniKubernetes(new File(words[0]), entrypoint, server.createClient());
    kubelet.client.pods().inAnyNamespace().watch(kubelet);
    System.out.println("> http://" + ADDRESS + ":" + web.getPort());
    System.out.flush();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    while (lines.readLine() != null) continue;
    for (Process each : kubelet.processes.values()) end(each);
    System.exit(0);
  }

  @Override
  public void eventReceived(Action action, Pod pod) {
    String name = pod.getMetadata().getName();
    try {
      if (action == Action.ADDED && !processes.containsKey(name)) {
        start(name, pod);
      } else if (action == Action.DELETED) {
        Process process = processes.remove(name);
        if (process != null) end(process);
      }
    } catch (Exception error) {
      error.printStackTrace();
    }
  }

  @Override
  public void onClose(WatcherException cause) {
    if (cause != null) cause.printStackTrace();
  }

  private void start(String name, Pod pod) throws Exception {
    Container container = pod.getSpec().getContainers().get(0);
    File here = new File(folder, name);
    here.mkdirs();
    List<String> command = new ArrayList<>(entrypoint);
    command.addAll(container.getArgs());
    ProcessBuilder builder = new ProcessBuilder(command).directory(here);
    for (EnvVar variable : container.getEnv()) {
      String value = variable.getValue();
      if (variable.getValueFrom() != null && variable.getValueFrom().getFieldRef() != null) {
        String field = variable.getValueFrom().getFieldRef().getFieldPath();
        value = field.equals("status.podIP") ? ADDRESS : field.equals("metadata.name") ? name : null;
      }
      if (variable.getName().equals("SPARK_LOCAL_DIRS")) value = new File(here, "local").getPath(); // a volume there
      if (value != null) builder.environment().put(variable.getName(), value);
    }
    builder.redirectErrorStream(true).redirectOutput(new File(here, "log"));
    Process process = builder.start();
    processes.put(name, process);
    report(pod, "Running", null);
    process.onExit().thenAccept(ended -> {
      if (processes.remove(name) == null) return; // its pod was deleted
      int code = ended.exitValue();
      report(pod, code == 0 ? "Succeeded" : "Failed", code);
    });
  }

  private void report(Pod pod, String phase, Integer code) {
    Container container = pod.getSpec().getContainers().get(0);
    ContainerStateBuilder state = new ContainerStateBuilder();
    if (code == null) state.withNewRunning().endRunning();
    else state.withNewTerminated().withExitCode(code).withReason(code == KILLED ? "OOMKilled" : "Error").endTerminated();
    client.pods().inNamespace(pod.getMetadata().getNamespace()).withName(pod.getMetadata().getName()).edit(
        known -> new PodBuilder(known).withStatus(
            new PodStatusBuilder()
                .withPhase(phase)
                .withPodIP(ADDRESS)
                .withContainerStatuses(
                    new ContainerStatusBuilder().withName(container.getName()).withState(state.build()).build())
                .build())
            .build());
  }

  /** SIGKILL to a process and all below it. */
  private static void end(Process process) {
    process.descendants().forEach(ProcessHandle::destroyForcibly);
    process.destroyForcibly();
  }
}
