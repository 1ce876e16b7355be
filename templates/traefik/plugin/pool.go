package lbgen

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// pools are those in use, by name, and conditions what is known of their endpoints, by pool and address. Both are the
// process's, so that listeners share them and a new configuration begins with what the old one knew.
var (
	poolsLock  sync.Mutex
	pools      = map[string]*pool{}
	conditions = map[string]*condition{}
)

// condition is how an endpoint is doing; its pool's lock guards it.
type condition struct {
	active   int // requests under way
	checked  bool
	down     bool
	bad      int // checks in a row that said otherwise
	failures int // requests in a row that failed
	ejected  time.Time
	back     time.Time // when it came back up, for the slow start
	since    time.Time // when checks last changed their mind
	reason   string    // of the last check that failed
}

type endpoint struct {
	conf       *Endpoint
	at         *condition
	address    string
	credit     float64
	names      *names
	transports map[string]*http.Transport // by times
}

type pool struct {
	conf      *Pool
	text      string // the configuration, to tell whether it changed
	users     int
	stop      context.CancelFunc
	proxy     *httputil.ReverseProxy
	endpoints []*endpoint
	lock      *sync.Mutex
	turn      int
	order     []int // of endpoints for plain requests
	waiting   []chan bool
	retrying  int  // requests that are tried again
	plain     bool // no endpoint can be out, full or a backup
	simple    bool // and none has a name, or speaks HTTP/2
}

// usePool is the pool of that configuration for as long as the context lasts.
func usePool(ctx context.Context, conf *Pool) (*pool, error) {
	data, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	text := string(data)
	poolsLock.Lock()
	defer poolsLock.Unlock()
	found := pools[conf.Name]
	if found == nil || found.text != text {
		made, err := newPool(conf, text)
		if err != nil {
			return nil, err
		}
		if found != nil {
			made.lock = found.lock // conditions are shared while both serve
			found.stop()
		}
		found = made
		pools[conf.Name] = found
		found.watch()
	}
	found.users++
	go found.release(ctx)
	return found, nil
}

// release ends a use of the pool; what the next configuration uses as well goes on.
func (p *pool) release(ctx context.Context) {
	<-ctx.Done()
	time.Sleep(10 * time.Second)
	poolsLock.Lock()
	defer poolsLock.Unlock()
	p.users--
	if p.users == 0 {
		p.stop()
		if pools[p.conf.Name] == p {
			delete(pools, p.conf.Name)
		}
	}
}

func newPool(conf *Pool, text string) (*pool, error) {
	p := &pool{conf: conf, text: text, stop: func() {}, lock: &sync.Mutex{}}
	p.plain = conf.Active == nil && conf.Passive == nil && conf.Max == 0
	for _, each := range conf.Endpoints {
		key := conf.Name + " " + each.Host + " " + each.Port
		at := conditions[key]
		if at == nil {
			at = &condition{}
			conditions[key] = at
		}
		one := &endpoint{conf: each, at: at, address: net.JoinHostPort(each.Host, each.Port), transports: map[string]*http.Transport{}}
		if each.Lookup {
			one.names = newNames(each.Host, conf.Resolvers)
		}
		if each.Backup || each.Weight == 0 {
			p.plain = false
		}
		p.endpoints = append(p.endpoints, one)
	}
	p.simple = p.plain && conf.Protocol == "http1"
	for _, each := range p.endpoints {
		p.simple = p.simple && each.names == nil
	}
	p.order = p.cycle()
	scheme := "http"
	if conf.TLS != nil {
		scheme = "https"
	}
	p.proxy = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: scheme, Host: "endpoint"})
	p.proxy.Transport = p
	p.proxy.FlushInterval = -1
	p.proxy.ModifyResponse = modify
	p.proxy.ErrorHandler = failed
	return p, nil
}

// place is where the endpoint is now, empty when its name has no address.
func (e *endpoint) place() string {
	if e.names == nil {
		return e.address
	}
	host := e.names.address()
	if host == "" {
		return ""
	}
	return net.JoinHostPort(host, e.conf.Port)
}

// usable is whether a client that holds the cookie of an endpoint may go there.
func (p *pool) usable(id string) *endpoint {
	for _, each := range p.endpoints {
		if each.conf.ID == id {
			p.lock.Lock()
			out := each.at.out(time.Now()) || (p.conf.Max > 0 && each.at.active >= p.conf.Max)
			p.lock.Unlock()
			if out {
				return nil
			}
			return each
		}
	}
	return nil
}

func (c *condition) out(now time.Time) bool {
	return c.down || now.Before(c.ejected)
}
