"""Opens a login session with PAM, as a display manager does, prints its ID, and keeps it until it is killed.

Usage: session.py USER TYPE TERMINAL

The TYPE is tty, x11 or wayland. A TERMINAL such as `:0` is an X11 display.
"""
import ctypes
import signal
import sys

user, kind, terminal = (argument.encode() for argument in sys.argv[1:])
TTY, SILENT = 3, 0x8000


class Conversation(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("data", ctypes.c_void_p)]


pam, handle, conversation = ctypes.CDLL("libpam.so.0"), ctypes.c_void_p(), Conversation()
pam.pam_getenv.restype = ctypes.c_char_p
for status in (
        pam.pam_start(b"login", user, ctypes.byref(conversation), ctypes.byref(handle)),
        pam.pam_set_item(handle, TTY, terminal),
        pam.pam_putenv(handle, b"XDG_SESSION_TYPE=" + kind),
        pam.pam_open_session(handle, SILENT)):
    if status:
        sys.exit(f"PAM has the status {status}")
print(pam.pam_getenv(handle, b"XDG_SESSION_ID").decode(), flush=True)
signal.pause()
