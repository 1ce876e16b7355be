package lbgen

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Traefik's own reverse proxy turns ; in a query into &, asks for gzip in the client's name, drops
// Proxy-Authorization, sends a request again on a stale connection and has no idle time. This one is Go's with those
// switched off; choosing the service, and with it the endpoint, stays with Traefik.
type hop struct {
	endpoints []*endpoint
	keepalive int
	lock      sync.Mutex
	proxies   map[string]*httputil.ReverseProxy
	turn      int
}

type endpoint struct {
	conf   *Endpoint
	active int
	names  *names
}

func newHop(conf *HopConfig) *hop {
	h := &hop{keepalive: conf.Keepalive, proxies: map[string]*httputil.ReverseProxy{}}
	for _, each := range conf.Endpoints {
		one := &endpoint{conf: each}
		if each.Lookup {
			one.names = newNames(each.Host, conf.Resolvers)
		}
		h.endpoints = append(h.endpoints, one)
	}
	return h
}

func (h *hop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	passed, ok := r.Context().Value(stateKey).(*state)
	if !ok {
		plain(w, r, http.StatusInternalServerError, nil)
		return
	}
	chosen := h.take()
	defer h.release(chosen)
	host := chosen.conf.Host
	if chosen.names != nil {
		if host = chosen.names.address(); host == "" {
			plain(w, r, http.StatusServiceUnavailable, passed.route.Reply)
			return
		}
	}
	passed.address = net.JoinHostPort(host, chosen.conf.Port)
	defer func() {
		// The body broke off: the client must see that, so its connection is closed. A panic would do the same and
		// fill the log.
		if failure := recover(); failure == http.ErrAbortHandler {
			cut(w)
		} else if failure != nil {
			panic(failure)
		}
	}()
	if passed.route.Idle > 0 {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		watch := newWatch(passed.route.Idle, cancel)
		defer watch.stop()
		if r.ContentLength != 0 {
			r.Body = &watchedBody{body: r.Body, watch: watch}
		}
		r = r.WithContext(context.WithValue(ctx, watchKey, watch))
	}
	h.proxy(passed.route).ServeHTTP(w, r)
}

func cut(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = connection.Close()
}

// take is the endpoint with the fewest requests for its weight; equals take turns.
func (h *hop) take() *endpoint {
	if len(h.endpoints) == 1 {
		return h.endpoints[0]
	}
	h.lock.Lock()
	defer h.lock.Unlock()
	h.turn++
	var best *endpoint
	for i := range h.endpoints {
		each := h.endpoints[(i+h.turn)%len(h.endpoints)]
		if best == nil || (each.active+1)*best.conf.Weight < (best.active+1)*each.conf.Weight {
			best = each
		}
	}
	best.active++
	return best
}

func (h *hop) release(chosen *endpoint) {
	if len(h.endpoints) > 1 {
		h.lock.Lock()
		chosen.active--
		h.lock.Unlock()
	}
}

func (h *hop) proxy(route *Route) *httputil.ReverseProxy {
	key := strconv.Itoa(route.Connect) + "/" + strconv.Itoa(route.Response)
	h.lock.Lock()
	defer h.lock.Unlock()
	found, ok := h.proxies[key]
	if !ok {
		dialer := &net.Dialer{Timeout: time.Duration(route.Connect) * time.Millisecond, KeepAlive: 30 * time.Second}
		var pool httputil.BufferPool = &buffers{} // the interpreter converts in an assignment, not in a literal
		found = &httputil.ReverseProxy{
			Rewrite: rewrite,
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					return dialer.DialContext(ctx, network, address)
				},
				ResponseHeaderTimeout: time.Duration(route.Response) * time.Millisecond,
				MaxIdleConnsPerHost:   h.keepalive,
				DisableKeepAlives:     h.keepalive == 0,
				IdleConnTimeout:       30 * time.Second,
				DisableCompression:    true,
				ReadBufferSize:        16 * 1024,
				WriteBufferSize:       16 * 1024,
			},
			FlushInterval:  -1,
			BufferPool:     pool,
			ModifyResponse: modify,
			ErrorHandler:   failed,
		}
		h.proxies[key] = found
	}
	return found
}

func rewrite(p *httputil.ProxyRequest) {
	passed := p.In.Context().Value(stateKey).(*state)
	p.Out.URL.Scheme = "http"
	p.Out.URL.Host = passed.address
	p.Out.URL.Opaque = passed.target // the request line, byte for byte
	p.Out.URL.RawQuery = ""
	p.Out.URL.ForceQuery = false
	p.Out.Host = p.In.Host
	delete(p.Out.Header, ServiceHeader)
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Proxy-Authorization", "Proxy-Authenticate"} {
		if lines, found := p.In.Header[name]; found {
			p.Out.Header[name] = lines
		}
	}
	p.Out.Trailer = nil
	if p.Out.Body == nil || p.Out.Body == http.NoBody {
		switch p.Out.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			// A body, though empty, keeps Go from sending the request a second time when a connection breaks.
			p.Out.Body = io.NopCloser(strings.NewReader(""))
		}
	}
}

func modify(reply *http.Response) error {
	passed := reply.Request.Context().Value(stateKey).(*state)
	edit(reply.Header, passed.route.Reply)
	watch, watched := reply.Request.Context().Value(watchKey).(*watch)
	if !watched {
		return nil
	}
	if reply.StatusCode == http.StatusSwitchingProtocols {
		watch.stop()
		reply.Body = tunnel(reply.Body, passed.route.Idle)
	} else if reply.ContentLength != 0 && reply.Request.Method != http.MethodHead {
		watch.start()
		reply.Body = &watchedBody{body: reply.Body, watch: watch}
	}
	return nil
}

func failed(w http.ResponseWriter, r *http.Request, err error) {
	var reply *Edits
	if passed, ok := r.Context().Value(stateKey).(*state); ok {
		reply = passed.route.Reply
	}
	status := http.StatusBadGateway
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		status = http.StatusGatewayTimeout
	}
	if watch, watched := r.Context().Value(watchKey).(*watch); watched && watch.expired() {
		status = http.StatusGatewayTimeout
	}
	plain(w, r, status, reply)
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if found, ok := b.pool.Get().([]byte); ok {
		return found
	}
	return make([]byte, 32*1024)
}

func (b *buffers) Put(buffer []byte) {
	b.pool.Put(buffer)
}
