package lbgen

import (
	"context"
	"net"
	"sync"
	"time"
)

// names knows the addresses of an endpoint's name; they are asked for again when older than five seconds.
type names struct {
	host     string
	resolver *net.Resolver
	lock     sync.Mutex
	found    []string
	asked    time.Time
	turn     int
}

func newNames(host string, servers []string) *names {
	n := &names{host: host, resolver: net.DefaultResolver}
	if len(servers) > 0 {
		turn := 0
		n.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			dialer := &net.Dialer{Timeout: time.Second}
			turn++
			return dialer.DialContext(ctx, network, servers[turn%len(servers)])
		}}
	}
	return n
}

// lost is whether the name was asked for in vain.
func (n *names) lost() bool {
	n.lock.Lock()
	defer n.lock.Unlock()
	return len(n.found) == 0 && !n.asked.IsZero()
}

// address is one of the name's addresses, or empty when it has none.
func (n *names) address() string {
	n.lock.Lock()
	defer n.lock.Unlock()
	if time.Since(n.asked) > 5*time.Second || (len(n.found) == 0 && time.Since(n.asked) > time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		found, err := n.resolver.LookupHost(ctx, n.host)
		cancel()
		n.asked = time.Now()
		if failure, ok := err.(*net.DNSError); err == nil || !ok || failure.IsNotFound {
			n.found = found
		}
	}
	if len(n.found) == 0 {
		return ""
	}
	n.turn++
	return n.found[n.turn%len(n.found)]
}
