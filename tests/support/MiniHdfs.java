import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS on loopback, with blocks of 1 MiB: its arguments are a directory and a port; it ends when its input does. */
public class MiniHdfs {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set("hdfs.minidfs.basedir", arguments[0]);
        configuration.setLong("dfs.blocksize", 1 << 20);
        MiniDFSCluster cluster =
            new MiniDFSCluster.Builder(configuration).nameNodePort(Integer.parseInt(arguments[1])).build();
        cluster.waitActive();
        System.out.println("ready");
        System.in.read();
        System.exit(0);
    }
}
