// A reverse proxy of one's own: httputil.ReverseProxy, round robin, connections kept to endpoints.
package main

import (
	"flag"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address and port")
	endpoints := flag.String("endpoints", "", "addresses and ports, separated by commas")
	flag.Parse()
	var targets []*url.URL
	for _, each := range strings.Split(*endpoints, ",") {
		targets = append(targets, &url.URL{Scheme: "http", Host: each})
	}
	var next atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(targets[next.Add(1)%uint64(len(targets))])
			request.Out.Host = request.In.Host
		},
		Transport: &http.Transport{
			MaxIdleConnsPerHost:   256,
			DisableCompression:    true,
			ResponseHeaderTimeout: 60 * time.Second,
		},
	}
	server := &http.Server{Addr: *listen, Handler: proxy, ReadHeaderTimeout: 60 * time.Second, IdleTimeout: 75 * time.Second}
	log.Fatal(server.ListenAndServe())
}
