package archive

import (
	"errors"
	"os"
	"path/filepath"
)

// A disk is where files are changed. Every change is a step, and a test may end the
// world before any of them; it may also be in a hurry, and have nothing synced.
type disk struct {
	step  func(op, path string) error
	hasty bool
}

func (d disk) before(op, path string) error {
	if d.step == nil {
		return nil
	}
	return d.step(op, path)
}

// A file is being written.
type file struct {
	disk
	*os.File
}

func (d disk) create(path string) (*file, error) {
	if err := d.mkdir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := d.before("create", path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &file{d, f}, nil
}

// Write may stop amid its bytes, as a process does that is killed.
func (f *file) Write(p []byte) (int, error) {
	if err := f.before("write", f.Name()); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

// close leaves everything that was written on the disk.
func (f *file) close() error {
	err := f.before("sync", f.Name())
	if err == nil && !f.hasty {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// mkdir makes a directory, and its name last.
func (d disk) mkdir(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if err := d.mkdir(parent); err != nil {
		return err
	}
	if err := d.before("mkdir", path); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return d.settle(parent)
}

func (d disk) rename(from, to string) error {
	if err := d.before("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// settle makes the names of a directory last.
func (d disk) settle(dir string) error {
	if err := d.before("settle", dir); err != nil || d.hasty {
		return err
	}
	return syncDir(dir)
}

// remove is for files that nobody needs; one that is gone is no error.
func (d disk) remove(path string) error {
	if err := d.before("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// replace writes a file whole or not at all.
func (d disk) replace(path string, data []byte) error {
	part := path + partSuffix
	if err := d.remove(part); err != nil {
		return err
	}
	f, err := d.create(part)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.close()); err != nil {
		return err
	}
	if err := d.rename(part, path); err != nil {
		return err
	}
	return d.settle(filepath.Dir(path))
}

// partSuffix marks what does not count yet.
const partSuffix = ".part"
