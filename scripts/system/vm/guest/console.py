"""Types at the virtual console 2 as a person does, and prints the lines that it then shows.

Usage: console.py OTHER PROMPT TEXT … PROMPT

Waits until the last line matches the first PROMPT, a regular expression, types the TEXT and Return, and so on. Ends when the last
line matches the last PROMPT, with 1 after the time limit, and with 3 if OTHER is shown in place of the second PROMPT, or nothing: a
login that starts discards what was typed before. Then it types Control-C, so that the next command finds a shell. Needs root.
"""
import fcntl
import os
import re
import sys
import termios
import time

LIMIT, LOST = 120, 30
VT_ACTIVATE = 0x5606
COLUMNS = 80


def screen():
    with open("/dev/vcs2", "rb") as file:
        cells = file.read().decode(errors="replace")
    lines = [cells[at:at + COLUMNS].rstrip() for at in range(0, len(cells), COLUMNS)]
    return [line for line in lines if line]


def enter(text):
    # A new descriptor for each text: the login hangs the terminal up.
    terminal = os.open("/dev/tty2", os.O_RDWR | os.O_NOCTTY)
    for character in text:
        fcntl.ioctl(terminal, termios.TIOCSTI, character.encode())
    os.close(terminal)


def wait_for(prompt, before, other=None):
    began, status = time.monotonic(), 1
    while time.monotonic() < began + LIMIT and status == 1:
        lines = screen()
        if lines and lines != before:
            if re.search(prompt, lines[-1]):
                return lines
            status = 3 if other and re.search(other, lines[-1]) else 1
        elif other and time.monotonic() > began + LOST:
            status = 3
        time.sleep(0.05)
    print("\n".join(screen()), f"The console did not ask: {prompt}", sep="\n")
    enter("\3")
    sys.exit(status)


with open("/dev/tty0", "rb") as file:
    fcntl.ioctl(file, VT_ACTIVATE, 2)
other, *steps, last = sys.argv[1:]
seen = None
for at in range(0, len(steps), 2):
    prompt, text = steps[at:at + 2]
    seen = wait_for(prompt, seen, other if at == 2 else None)
    enter(text + "\r")
print("\n".join(wait_for(last, seen)))
