package comparator;

import java.net.URI;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.gateway.route.RouteLocator;
import org.springframework.cloud.gateway.route.builder.RouteLocatorBuilder;
import org.springframework.context.annotation.Bean;
import org.springframework.core.env.Environment;
import org.springframework.web.util.UriComponentsBuilder;

/** Spring Cloud Gateway: round robin, connections kept to endpoints, no access log. */
@SpringBootApplication
public class Comparator {
    public static void main(String[] args) {
        Map<String, String> flags = Map.of(args[0], args[1], args[2], args[3]);
        String listen = flags.get("-listen");
        int colon = listen.lastIndexOf(':');
        SpringApplication application = new SpringApplication(Comparator.class);
        application.setDefaultProperties(Map.of(
            "server.address", listen.substring(0, colon),
            "server.port", listen.substring(colon + 1),
            "endpoints", flags.get("-endpoints"),
            "logging.level.root", "warn",
            "spring.main.banner-mode", "off"));
        application.run();
    }

    @Bean
    RouteLocator routes(RouteLocatorBuilder builder, Environment environment) {
        List<URI> targets = List.of(environment.getRequiredProperty("endpoints").split(",")).stream()
            .map(each -> URI.create("http://" + each)).toList();
        AtomicInteger next = new AtomicInteger();
        return builder.routes()
            .route("all", route -> route.path("/**")
                .filters(filters -> filters.preserveHostHeader().changeRequestUri(exchange -> {
                    URI target = targets.get(Math.floorMod(next.getAndIncrement(), targets.size()));
                    return Optional.of(UriComponentsBuilder.fromUri(exchange.getRequest().getURI())
                        .scheme("http").host(target.getHost()).port(target.getPort()).build(true).toUri());
                }))
                .uri(targets.get(0)))
            .build();
    }
}
