package bench

import (
	"context"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A peak is how much memory there was, in bytes: at first and at most.
type peak struct{ before, most uint64 }

func (p *peak) see(bytes uint64) {
	if p.before == 0 {
		p.before = bytes
	}
	p.most = max(p.most, bytes)
}

// watchMemory looks at the memory of this process until it is told to stop: the
// heap's objects, those that wait for their collection included, and what is
// resident, zero where the system does not tell.
func watchMemory(ctx context.Context) (stop func() (heap, resident peak)) {
	const every = 2 * time.Millisecond
	var heap, resident peak
	look := func() {
		heap.see(heapObjects())
		resident.see(residentBytes())
	}
	look()
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		for pause(ctx, every) == nil {
			look()
		}
	})
	return func() (peak, peak) {
		cancel()
		looking.Wait()
		look()
		return heap, resident
	}
}

func heapObjects() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// residentBytes reads the second field of Linux' statm, which counts pages.
func residentBytes() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// fetchMemory has the runtime hold more memory ready than any burst takes, so that none
// has to be fetched from the system meanwhile.
func fetchMemory() {
	const (
		pieces, size = 96, 1 << 20
		page         = 4096
	)
	all := make([][]byte, pieces)
	for i := range all {
		all[i] = make([]byte, size)
		for at := 0; at < size; at += page {
			all[i][at] = 1
		}
	}
	runtime.KeepAlive(all)
	runtime.GC()
}
