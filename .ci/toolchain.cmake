# For .ci/run: cmake looks for programs in PATH alone, where it would also look into the folders of the system.
set(CMAKE_SYSTEM_IGNORE_PATH /usr/local/bin /usr/local/sbin /usr/bin /usr/sbin /bin /sbin)
