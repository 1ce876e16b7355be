import java.io.ByteArrayInputStream;
import java.net.CookieManager;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.WebSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * The client of java.net.http: prints what it got for each part of its work, as JSON.
 *
 * <p>java Client.java CA-FILE [URL-PREFIX WEBSOCKET-PREFIX VERSION]..., where VERSION is HTTP_1_1 or HTTP_2. Without TLS
 * HTTP_2 asks for h2c by an upgrade, as it does by default.
 */
class Client {
    static HttpClient client;
    static String prefix;

    static byte[] content(int size) {
        StringBuilder made = new StringBuilder();
        for (int number = 0; made.length() < size; number++) made.append(String.format("%09d\n", number));
        return made.substring(0, size).getBytes();
    }

    static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((key, each) -> parts.add(json(key) + ":" + json(each)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof List<?> list) return "[" + String.join(",", list.stream().map(Client::json).toList()) + "]";
        if (value instanceof Number) return value.toString();
        return "\"" + value.toString().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
    }

    static Map<String, Object> ask(String method, String path, BodyPublisher body, boolean expect) {
        try {
            var request = HttpRequest.newBuilder(URI.create(prefix + path)).method(method, body).expectContinue(expect);
            var got = client.send(request.timeout(Duration.ofSeconds(8)).build(), BodyHandlers.ofByteArray());
            List<Object> fields = new ArrayList<>();
            got.headers().map().forEach((name, values) -> values.forEach(each -> fields.add(List.of(name, each))));
            fields.removeIf(each -> ((List<?>) each).get(0).equals(":status"));
            String text = new String(got.body());
            String hash = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(got.body()));
            Object shown = text.startsWith("{") ? text.strip() : hash;
            return Map.of("status", got.statusCode(), "answer", fields, "body", shown);
        } catch (Exception error) {
            return Map.of("error", error.toString());
        }
    }

    static Map<String, Object> ask(String method, String path) {
        return ask(method, path, BodyPublishers.noBody(), false);
    }

    /** Sends a text and bytes, and returns what comes back, and the code of the close. */
    static List<Object> talk(String address) throws Exception {
        List<Object> heard = new ArrayList<>();
        CompletableFuture<Integer> closed = new CompletableFuture<>();
        CompletableFuture<Void> both = new CompletableFuture<>();
        var socket = client.newWebSocketBuilder().buildAsync(URI.create(address + "/ws/echo"), new WebSocket.Listener() {
            public CompletionStage<?> onText(WebSocket from, CharSequence data, boolean last) {
                heard.add(data.toString());
                from.request(1);
                return null;
            }

            public CompletionStage<?> onBinary(WebSocket from, java.nio.ByteBuffer data, boolean last) {
                heard.add(data.remaining());
                from.request(1);
                if (last) both.complete(null);
                return null;
            }

            public CompletionStage<?> onClose(WebSocket from, int code, String reason) {
                closed.complete(code);
                return null;
            }
        }).get(10, TimeUnit.SECONDS);
        socket.sendText("hello \u2603", true).get(5, TimeUnit.SECONDS);
        socket.sendBinary(java.nio.ByteBuffer.wrap(new byte[1000]), true).get(5, TimeUnit.SECONDS);
        both.get(5, TimeUnit.SECONDS);
        socket.sendClose(1000, "").get(5, TimeUnit.SECONDS);
        heard.add(closed.get(5, TimeUnit.SECONDS));
        return heard;
    }

    public static void main(String[] given) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (var file = Files.newInputStream(Path.of(given[0]))) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        List<Object> all = new ArrayList<>();
        for (int first = 1; first < given.length; first += 3) {
            prefix = given[first];
            client = HttpClient.newBuilder().sslContext(context).version(HttpClient.Version.valueOf(given[first + 2]))
                .followRedirects(HttpClient.Redirect.NORMAL).cookieHandler(new CookieManager()).build();
            all.add(work(given[first + 1]));
        }
        System.out.println(json(all));
        System.exit(0);
    }

    static Map<String, Object> work(String sockets) {
        byte[] large = content(2_000_000);
        Map<String, Object> done = new LinkedHashMap<>();
        done.put("get", ask("GET", "/http/echo/a%20b/~me?q=a%20b&x=%2F&e="));
        done.put("post", ask("POST", "/http/echo", BodyPublishers.ofByteArray(large), false));
        var pieces = BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(large));
        done.put("in pieces", ask("PUT", "/http/echo", pieces, false));
        done.put("expect", ask("POST", "/http/echo", BodyPublishers.ofByteArray(large), true));
        done.put("head", ask("HEAD", "/http/bytes/100000"));
        done.put("download", ask("GET", "/http/bytes/2000000"));
        done.put("redirect", ask("POST", "/http/redirect", BodyPublishers.ofString("again"), false));
        done.put("pieces", ask("GET", "/http/chunks/1000"));
        done.put("events", ask("GET", "/sse/events/10"));
        done.put("set cookies", ask("GET", "/http/cookies"));
        done.put("cookies", ask("GET", "/http/cookies"));
        done.put("refused", ask("POST", "/early/refuse", BodyPublishers.ofByteArray(large), false));
        done.put("after it", ask("GET", "/early/echo"));
        try {
            done.put("websocket", talk(sockets));
        } catch (Exception error) {
            done.put("websocket", Map.of("error", error.toString()));
        }
        return done;
    }
}
