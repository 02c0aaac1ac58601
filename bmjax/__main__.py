"""The entry point of `python -m bmjax`; the command itself is in `bmjax._cli.command`."""

import os
import signal
import sys
import threading
import time

from bmjax._cli.command import INTERRUPTED, main

_GRACE = 1.0  # seconds


def _end_on_interrupt() -> None:
    """Let Ctrl-C end the process even in the middle of compiled code.

    Python raises KeyboardInterrupt only between its own instructions, and a long fit is a single
    instruction. So a thread that receives the signal at once gives `main` a second to end.
    """
    heard, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)

    def wait() -> None:
        while signal.SIGINT not in os.read(heard, 64):
            pass
        time.sleep(_GRACE)
        print(INTERRUPTED, file=sys.stderr, flush=True)
        os._exit(130)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    _end_on_interrupt()
    status = main()
    if status == 130:
        os._exit(status)  # at a normal exit JAX waits for running work
    sys.exit(status)
