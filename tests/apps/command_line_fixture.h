// CommandLine: runs the program with arguments and standard input, and captures its output.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid {

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

class CommandLine : public testing::Test {
 protected:
  // Runs `ibid ARGUMENTS` through a shell, which parses quotes, with `input` on standard input. `before` precedes the
  // command.
  Outcome run(const std::string& arguments, const std::string& input = "", const std::string& before = "") const {
    const std::string in = dir_.write("stdin", input);
    const std::string command =
        before + IBID_PROGRAM + " " + arguments + " <" + in + " >" + dir_.file("stdout") + " 2>" + dir_.file("stderr");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_whole_file(dir_.file("stdout")),
            read_whole_file(dir_.file("stderr"))};
  }

  std::string tiny_model() const {
    const std::string path = dir_.file("tiny.gguf");
    TinyModel tiny;
    tiny.matrix_dtype = DType::kQ4_1;
    write_tiny_model(tiny, path);
    return path;
  }

  TempDir dir_;
};

class RealModelCommandLine : public CommandLine {};

}  // namespace ibid
