//go:build !race

package lab

func oneProcessor() {}
