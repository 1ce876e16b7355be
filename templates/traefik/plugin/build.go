package lbgen

import (
	"context"
	"net/http"
	"strings"
)

func newEdge(ctx context.Context, conf *Config) (http.Handler, error) {
	e := &edge{conf: conf, exact: map[string]*table{}, wild: map[string]*table{}, credit: map[*Target]int{}}
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
	e.paths = newPaths(conf)
	e.scheme, e.port = []string{conf.Scheme}, []string{conf.Port}
	e.counted = useConnections(conf)
	times := map[string]*Route{}
	for _, route := range conf.Routes {
		route.times = timesKey(route.Connect, route.Response)
		times[route.times] = route
	}
	used := []*pool{}
	for _, each := range conf.Pools {
		if each.Hash != nil && each.Hash.Kind == "header" {
			each.Hash.Name = http.CanonicalHeaderKey(each.Hash.Name)
		}
		one, err := usePool(ctx, each, times)
		if err != nil {
			return nil, err
		}
		used = append(used, one)
	}
	e.guards = map[*Route]*guard{}
	for _, route := range conf.Routes {
		route.link(used)
		asked, err := newGuard(route)
		if err != nil {
			return nil, err
		}
		e.guards[route] = asked
	}
	rules := []*rule{}
	for _, each := range conf.Rules {
		one, err := newRule(each, conf.Routes[each.Route])
		if err != nil {
			return nil, err
		}
		rules = append(rules, one)
	}
	e.any = &table{}
	for _, each := range conf.Tables {
		one, err := newTable(each, rules)
		if err != nil {
			return nil, err
		}
		if each.Host == "" {
			e.any = one
		} else if strings.HasPrefix(each.Host, "*.") {
			e.wild[each.Host[2:]] = one
		} else {
			e.exact[each.Host] = one
		}
	}
	for _, route := range conf.Routes {
		if route.isPlain() {
			route.plain = e.forwarder(route, e.serveDirect)
		}
	}
	e.careful = len(e.trusted) > 0 || e.gate != nil || conf.Headers > 0
	e.handler = e.newHandler()
	e.named = len(e.exact)+len(e.wild) > 0
	e.enter(ctx)
	return e, nil
}

// link turns the indexes of a route into what they stand for.
func (r *Route) link(used []*pool) {
	for _, target := range r.Targets {
		target.pool = used[target.Pool]
		r.sticky = r.sticky || target.pool.conf.Sticky != nil
		r.chosen = r.chosen || r.sticky || len(r.Targets) > 1 || target.pool.conf.Hash != nil
		r.changed = r.changed || r.Rewrite != nil || r.Request != nil || target.Request != nil || target.pool.conf.Protocol == "grpc"
	}
	r.answered = r.Cors != nil || r.Reply != nil || r.sticky || r.Compression != nil || r.Body != nil && r.Body.Reply
	for _, mirror := range r.Mirrors {
		mirror.pool = used[mirror.Pool]
	}
	if r.Retries != nil {
		r.Retries.statuses = map[int]bool{}
		for _, status := range r.Retries.Statuses {
			r.Retries.statuses[status] = true
		}
	}
}
