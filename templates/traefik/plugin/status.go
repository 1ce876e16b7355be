package lbgen

import (
	"encoding/json"
	"net/http"
	"time"
)

// shown is how an endpoint is, for people; Since counts seconds of the epoch.
type shown struct {
	State  string  `json:"state"`
	Since  float64 `json:"since,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// tell answers with the endpoints of each pool in use, in the order of its configuration.
func tell(w http.ResponseWriter, _ *http.Request) {
	used := []*pool{}
	poolsLock.Lock()
	for _, each := range pools {
		used = append(used, each)
	}
	poolsLock.Unlock()
	found := map[string][]shown{}
	for _, each := range used {
		found[each.conf.Name] = each.shown(time.Now())
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(found)
}

func (p *pool) shown(now time.Time) []shown {
	lost := []bool{}
	for _, each := range p.endpoints { // before the pool is locked, since a lookup may be under way
		lost = append(lost, each.names != nil && each.names.lost())
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	found := []shown{}
	for i, each := range p.endpoints {
		if lost[i] {
			found = append(found, shown{State: "down", Reason: "its name has no address"})
		} else {
			found = append(found, p.show(each, now))
		}
	}
	return found
}

// show is called with the pool's lock.
func (p *pool) show(each *endpoint, now time.Time) shown {
	at := each.at
	said := shown{State: "up"}
	if !at.since.IsZero() {
		said.Since = float64(at.since.UnixMilli()) / 1000
	}
	if at.down {
		said.State, said.Reason = "down", at.reason
	} else if now.Before(at.ejected) {
		said.State = "ejected"
		said.Since = float64(at.ejected.UnixMilli()-int64(p.conf.Passive.Eject)) / 1000
	} else if each.conf.Weight == 0 {
		said.State = "draining"
	} else if p.conf.Slow > 0 && !at.back.IsZero() && now.Sub(at.back) < time.Duration(p.conf.Slow)*time.Millisecond {
		said.State = "starting"
	}
	return said
}
