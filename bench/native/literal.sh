#!/bin/sh
# The literal commands of the requirement rows S001 around the same agent.
# literal.sh CHANGE STORIES PROMPT OUTPUT AGENT...
set -e
change=$1 stories=$2 prompt=$3 output=$4
shift 4
git checkout -q -B "ralph/$change"
git add -A && git commit -q --allow-empty -m "initial state"
id=0
while [ "$id" -lt "$stories" ]; do
    id=$((id + 1))
    echo "{\"event\": \"iteration_started\", \"n\": $id}"
    "$@" <"$prompt" >"$output"
    grep -q '<promise>COMPLETE</promise>' "$output"
    git add -A && git commit -q -m "checkpoint: $id"
done
