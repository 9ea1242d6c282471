# For .ci/run: makes cmake search programs only in PATH, not in the folders of the system as well.
set(CMAKE_SYSTEM_IGNORE_PATH /usr/local/bin /usr/local/sbin /usr/bin /usr/sbin /bin /sbin)
