import com.github.javacliparser.ClassOption;
import com.yahoo.labs.samoa.instances.*;
import java.io.*;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.*;
import moa.classifiers.Classifier;
import moa.core.Utils;

/** Learns a CSV file in turns, for moa.py: each line of its input is a number of events, or "new" for a new model. */
public class Moa {
  public static void main(String[] arguments) throws Exception {
    List<Instance> instances = read(arguments[0]);
    InstancesHeader header = (InstancesHeader) instances.get(0).dataset();
    Classifier model = null;
    int place = 0;
    ThreadMXBean thread = ManagementFactory.getThreadMXBean();
    var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      if (line.equals("new")) {
        model = (Classifier) ClassOption.cliStringToObject(arguments[1], Classifier.class, null);
        model.setModelContext(header);
        model.prepareForUse();
        place = 0;
        continue;
      }
      long threadBegan = thread.getCurrentThreadCpuTime(), processBegan = process.getProcessCpuTime();
      int right = 0;
      for (int end = place + Integer.parseInt(line); place < end; place++) {
        Instance instance = instances.get(place);
        if (Utils.maxIndex(model.getVotesForInstance(instance)) == (int) instance.classValue()) right++;
        model.trainOnInstance(instance);
      }
      long threadTime = thread.getCurrentThreadCpuTime() - threadBegan;
      System.out.println(threadTime + " " + (process.getProcessCpuTime() - processBegan) + " " + right);
    }
  }

  private static List<Instance> read(String path) throws IOException {
    List<String[]> rows = new ArrayList<>();
    TreeSet<String> names = new TreeSet<>();
    String[] columns;
    try (BufferedReader file = new BufferedReader(new FileReader(path))) {
      columns = file.readLine().split(",");
      for (String line = file.readLine(); line != null; line = file.readLine()) {
        rows.add(line.split(","));
        names.add(rows.get(rows.size() - 1)[columns.length - 1]);
      }
    }
    int features = columns.length - 1;
    List<String> classes = new ArrayList<>(names);
    List<Attribute> attributes = new ArrayList<>();
    for (int i = 0; i < features; i++) attributes.add(new Attribute(columns[i]));
    attributes.add(new Attribute("class", classes));
    Instances dataset = new Instances("stream", attributes, 0);
    dataset.setClassIndex(features);
    InstancesHeader header = new InstancesHeader(dataset);
    header.setClassIndex(features);
    List<Instance> instances = new ArrayList<>();
    for (String[] row : rows) {
      Instance instance = new DenseInstance(features + 1);
      instance.setDataset(header);
      for (int i = 0; i < features; i++) instance.setValue(i, Double.parseDouble(row[i]));
      instance.setClassValue(classes.indexOf(row[features]));
      instances.add(instance);
    }
    return instances;
  }
}
