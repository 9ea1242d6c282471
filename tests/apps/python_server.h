// Runs a small Python server for a test; it prints its port, and is killed on destruction.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace ibid {

class PythonServer {
 public:
  explicit PythonServer(std::vector<std::string> words) {
    words.insert(words.begin(), "python3");
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    int out[2];
    EXPECT_EQ(pipe(out), 0);
    process_ = fork();
    if (process_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      execvp(pointers[0], pointers.data());
      _exit(127);
    }
    close(out[1]);
    FILE* lines = fdopen(out[0], "r");
    EXPECT_EQ(std::fscanf(lines, "%d", &port_), 1);
    std::fclose(lines);
  }
  ~PythonServer() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  PythonServer(const PythonServer&) = delete;
  PythonServer& operator=(const PythonServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  pid_t process_ = -1;
  int port_ = 0;
};

}  // namespace ibid
