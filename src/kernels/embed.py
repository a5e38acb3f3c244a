#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write an assembler file that holds another file in a read-only section, under a hidden symbol and with a NUL behind.

Usage: embed.py SYMBOL OUTPUT [FILE]        without FILE there is only the NUL

It is written anew whenever FILE changes, so that what includes FILE is assembled anew too.
"""

import os
import sys

TEMPLATE = """/* Made by embed.py. */
    .section .rodata, "a", %progbits
    .balign 64
    .hidden {symbol}
    .hidden {symbol}_end
    .globl {symbol}
    .globl {symbol}_end
{symbol}:
{include}
{symbol}_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
"""


def main():
    symbol, output, *files = sys.argv[1:]
    include = f'    .incbin "{os.path.abspath(files[0])}"' if files else ""
    with open(output, "w", encoding="utf-8") as file:
        file.write(TEMPLATE.format(symbol=symbol, include=include))


if __name__ == "__main__":
    main()
