package archive

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// A column reads the values of one, page by page. None of ours is optional or repeated.
type column struct {
	pages parquet.Pages
	page  parquet.Page
	at    int // in the page
	left  int // in the page
	known parquet.Dictionary
	// What the dictionary says.
	numbered []int64
	named    []string
}

func (c *column) close() error {
	c.release()
	return c.pages.Close()
}

func (c *column) release() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
}

// each takes n values page by page.
func (c *column) each(n int, take func(done, from, n int) error) error {
	for done := 0; done < n; {
		if c.left == 0 {
			if err := c.turn(); err != nil {
				return err
			}
			continue
		}
		some := min(c.left, n-done)
		if err := take(done, c.at, some); err != nil {
			return err
		}
		done, c.at, c.left = done+some, c.at+some, c.left-some
	}
	return nil
}

// turn goes to the next page.
func (c *column) turn() (err error) {
	c.release()
	if c.page, err = c.pages.ReadPage(); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	c.at, c.left = 0, int(c.page.NumValues())
	if d := c.page.Dictionary(); d != nil && d != c.known {
		c.known, c.numbered, c.named = d, c.numbered[:0], c.named[:0]
		for i := range d.Len() {
			switch v := d.Index(int32(i)); v.Kind() {
			case parquet.Int64:
				c.numbered = append(c.numbered, v.Int64())
			case parquet.ByteArray:
				c.named = append(c.named, string(v.ByteArray()))
			}
		}
	}
	return nil
}

var errIndex = errors.New("a value that the dictionary does not have")

func look[T any](dst []T, indexes []int32, values []T) error {
	for i, at := range indexes {
		if int(at) >= len(values) || at < 0 {
			return fmt.Errorf("%w: %d of %d", errIndex, at, len(values))
		}
		dst[i] = values[at]
	}
	return nil
}

func (c *column) numbers(dst []int64) error {
	return c.each(len(dst), func(done, from, n int) error {
		data := c.page.Data()
		if c.page.Dictionary() != nil {
			return look(dst[done:], data.Int32()[from:from+n], c.numbered)
		}
		copy(dst[done:], data.Int64()[from:from+n])
		return nil
	})
}

func (c *column) texts(dst []string) error {
	return c.each(len(dst), func(done, from, n int) error {
		data := c.page.Data()
		if c.page.Dictionary() != nil {
			return look(dst[done:], data.Int32()[from:from+n], c.named)
		}
		bytes, offsets := data.ByteArray()
		for i := range n {
			dst[done+i] = string(bytes[offsets[from+i]:offsets[from+i+1]])
		}
		return nil
	})
}

func (c *column) flags(dst []bool) error {
	return c.each(len(dst), func(done, from, n int) error {
		bits := c.page.Data()
		packed := bits.Boolean()
		for i := range n {
			at := from + i
			dst[done+i] = packed[at/8]>>(at%8)&1 != 0
		}
		return nil
	})
}
