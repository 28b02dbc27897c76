// Package trace reads connection histories, plays them into a fabric through its
// edges, and checks what a viewer was told against the four rules that every
// history must keep:
//
//  1. a user is never offline while one of its devices is connected and speaks;
//  2. it is offline no later than the bound of the way in which its last device
//     left, and online at once when one comes;
//  3. it is not offline earlier than the debounce after a close, the idle timeout
//     after silence began, the lease's end after a crash;
//  4. versions grow, and a return within the debounce publishes nothing.
//
// The checker knows nothing of the fabric but its bounds.
package trace
