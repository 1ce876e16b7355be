package lbgen

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// linker makes a route serve below an edge.
type linker func(*edge, map[string]*pool) error

// unlinked are the routes of a listener's routers: Traefik makes these before the edge above them.
var (
	serials      int // of edges
	unlinkedLock sync.Mutex
	unlinked     = map[string][]linker{}
)

func addUnlinked(listener string, one linker) {
	unlinkedLock.Lock()
	unlinked[listener] = append(unlinked[listener], one)
	unlinkedLock.Unlock()
}

func takeUnlinked(listener string) []linker {
	unlinkedLock.Lock()
	defer unlinkedLock.Unlock()
	found := unlinked[listener]
	delete(unlinked, listener)
	return found
}

func newEdge(ctx context.Context, next http.Handler, conf *Config) (http.Handler, error) {
	e := &edge{conf: conf, next: next, asks: conf.Asks}
	serials++
	e.serial = serials
	routes := takeUnlinked(conf.Listener)
	if err := proven(); err != nil {
		return nil, err
	}
	var err error
	if e.trusted, err = prefixes(conf.Trusted); err != nil {
		return nil, err
	}
	if e.gate, err = newGate(conf.Access); err != nil {
		return nil, err
	}
	if e.log, err = useLog(conf.Log); err != nil {
		return nil, err
	}
	if e.asks != nil {
		for i, name := range e.asks.Headers {
			e.asks.Headers[i] = http.CanonicalHeaderKey(name)
		}
	}
	e.paths = newPaths(conf)
	e.counted = useConnections(conf)
	e.scheme, e.port = []string{conf.Scheme}, []string{conf.Port}
	e.careful = len(e.trusted) > 0 || e.gate != nil || conf.Headers > 0
	used := map[string]*pool{}
	for _, each := range conf.Pools {
		if each.Hash != nil && each.Hash.Kind == "header" {
			each.Hash.Name = http.CanonicalHeaderKey(each.Hash.Name)
		}
		one, err := usePool(ctx, each)
		if err != nil {
			return nil, err
		}
		used[each.Name] = one
	}
	if conf.Idle > 0 {
		e.silences = watchSilences(ctx, e.serial, time.Duration(conf.Idle)*time.Millisecond/steps)
	}
	for _, link := range routes {
		if err := link(e, used); err != nil {
			return nil, err
		}
	}
	e.strict = conf.Proxied || e.careful || conf.Target > 0
	e.handler = e.newHandler()
	e.enter(ctx)
	return http.HandlerFunc(e.serveBelow), nil
}

// prepare turns the names in a route into what they stand for.
func (r *Route) prepare(used map[string]*pool) error {
	for _, target := range r.Targets {
		target.pool = used[target.Pool]
		r.sticky = r.sticky || target.pool.conf.Sticky != nil
		r.chosen = r.chosen || r.sticky || len(r.Targets) > 1 || target.pool.conf.Hash != nil
		r.changed = r.changed || r.Rewrite != nil || r.Request != nil || target.Request != nil || target.pool.conf.Protocol == "grpc"
		if err := target.pool.prepare(r); err != nil {
			return err
		}
	}
	r.answered = r.Cors != nil || r.Reply != nil || r.sticky || r.Compression != nil || r.Body != nil && r.Body.Reply
	for _, mirror := range r.Mirrors {
		mirror.pool = used[mirror.Pool]
		if err := mirror.pool.prepare(r); err != nil {
			return err
		}
	}
	if r.Retries != nil {
		r.Retries.statuses = map[int]bool{}
		for _, status := range r.Retries.Statuses {
			r.Retries.statuses[status] = true
		}
	}
	var err error
	r.guard, err = newGuard(r)
	return err
}
