#!/bin/sh
# The instant agent where no C compiler is: reads its prompt, adds one line, promises COMPLETE.
cat >/dev/null
echo x >>"$2"
echo '<promise>COMPLETE</promise>'
