package lbgen

import (
	"net"
	"net/http"
	"sync"
)

// connections counts those of a listener; one too many is closed.
type connections struct {
	lock    sync.Mutex
	most    int
	open    map[net.Conn]bool
	tunnels int // upgraded ones, which the server no longer knows
}

// allConnections are the process's, by listener, so that a new configuration goes on counting.
var allConnections = map[string]*connections{}

func useConnections(conf *Config) *connections {
	if conf.Most == 0 {
		return nil
	}
	countersLock.Lock()
	defer countersLock.Unlock()
	found := allConnections[conf.Listener]
	if found == nil {
		found = &connections{open: map[net.Conn]bool{}}
		allConnections[conf.Listener] = found
	}
	found.most = conf.Most
	return found
}

// told is called by Go's server whenever a connection changes.
func (c *connections) told(connection net.Conn, now http.ConnState) {
	if now == http.StateActive || now == http.StateIdle {
		return
	}
	c.lock.Lock()
	full := false
	if now == http.StateNew {
		full = len(c.open)+c.tunnels >= c.most
		if !full {
			c.open[connection] = true
		}
	} else {
		if now == http.StateHijacked {
			c.tunnels++
		}
		delete(c.open, connection)
	}
	c.lock.Unlock()
	if full {
		_ = connection.Close()
	}
}

// ended is told of a tunnel by the one who served it.
func (c *connections) ended() {
	c.lock.Lock()
	c.tunnels--
	c.lock.Unlock()
}
