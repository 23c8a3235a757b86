#!/bin/sh
# Runs the tests. The first line of a test is a command, the rest is what it must print.
for test in tests/*.test; do
    command=$(sed -n '1s/^\$ //p' "$test")
    expected=$(sed 1d "$test")
    answer=$(eval "$command" 2>&1)
    if [ "$answer" != "$expected" ]; then
        echo "not ok: $test: \`$command\` printed '$answer', not '$expected'"
        exit 1
    fi
    echo "ok: $test"
done
