package lbgen

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// counters are the process's: listeners share those of a route, and they outlive a change of the configuration.
var (
	countersLock sync.Mutex
	allRates     = map[string]*rates{}
	allCounts    = map[string]*counts{}
)

type bucket struct {
	tokens float64
	at     time.Time
}

// rates are the token buckets of a route.
type rates struct {
	conf  *Rate
	lock  sync.Mutex
	each  map[string]*bucket
	swept time.Time
}

// counts are the requests of a route under way.
type counts struct {
	lock sync.Mutex
	each map[string]int
}

func useRates(route *Route) *rates {
	if route.Rate == nil {
		return nil
	}
	conf := route.Rate
	name := fmt.Sprintf("%s %d %d %d %s %s", route.Name, conf.Amount, conf.Seconds, conf.Burst, conf.Key.Kind, conf.Key.Name)
	countersLock.Lock()
	defer countersLock.Unlock()
	found := allRates[name]
	if found == nil {
		found = &rates{conf: conf, each: map[string]*bucket{}, swept: time.Now()}
		allRates[name] = found
	}
	return found
}

func useCounts(route *Route) *counts {
	if route.Concurrency == nil {
		return nil
	}
	name := route.Name + " " + route.Concurrency.Key.Kind + " " + route.Concurrency.Key.Name
	countersLock.Lock()
	defer countersLock.Unlock()
	found := allCounts[name]
	if found == nil {
		found = &counts{each: map[string]int{}}
		allCounts[name] = found
	}
	return found
}

// admits takes a token of the key's bucket.
func (c *rates) admits(key string) bool {
	now := time.Now()
	speed := float64(c.conf.Amount) / float64(c.conf.Seconds)
	c.lock.Lock()
	defer c.lock.Unlock()
	full := time.Duration(float64(c.conf.Burst)/speed*float64(time.Second)) + time.Second
	if now.Sub(c.swept) > full { // buckets that are full again are as good as none
		for name, each := range c.each {
			if now.Sub(each.at) > full {
				delete(c.each, name)
			}
		}
		c.swept = now
	}
	found := c.each[key]
	if found == nil {
		found = &bucket{tokens: float64(c.conf.Burst), at: now}
		c.each[key] = found
	}
	found.tokens += now.Sub(found.at).Seconds() * speed
	if found.tokens > float64(c.conf.Burst) {
		found.tokens = float64(c.conf.Burst)
	}
	found.at = now
	if found.tokens < 1 {
		return false
	}
	found.tokens--
	return true
}

// A client may have the last byte of an answer an instant before its request is counted out: one that finds a limit
// reached looks again so many times, so long apart.
const (
	looks = 5
	apart = 3 * time.Millisecond
)

// enter counts a request unless there are as many already.
func (c *counts) enter(key string, most int) bool {
	for i := 0; i < looks; i++ {
		c.lock.Lock()
		free := c.each[key] < most
		if free {
			c.each[key]++
		}
		c.lock.Unlock()
		if free {
			return true
		}
		time.Sleep(apart)
	}
	return false
}

func (c *counts) leave(key string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.each[key]--
	if c.each[key] == 0 {
		delete(c.each, key)
	}
}

// keyOf is the value that a key has in this request; false when its header is missing or empty.
func (s *state) keyOf(key *Key) (string, bool) {
	if key.Kind == "client_ip" {
		return s.address, true
	}
	if key.Kind == "header" {
		lines := s.q.header[key.Name]
		if key.Name == "Host" {
			lines = []string{s.q.host}
		}
		if len(lines) == 1 {
			return lines[0], lines[0] != ""
		}
		return strings.Join(lines, ", "), len(lines) > 0
	}
	if key.Kind == "cookie" {
		return cookie(s.q.header["Cookie"], key.Name)
	}
	if key.Kind == "query" {
		return parameter(s.q.query, key.Name)
	}
	return "", true
}
