#include "tests/support/temp_dir.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/check.h"

namespace ibid {

TempDir::TempDir() : path_((std::filesystem::temp_directory_path() / "ibid_test_XXXXXX").string()) {
  CHECK(::mkdtemp(path_.data()) != nullptr) << path_;
}

TempDir::~TempDir() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TempDir::write(std::string_view name, std::string_view content) const {
  const std::string path = file(name);
  std::ofstream out(path, std::ios::binary);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  CHECK(out.good()) << path;
  return path;
}

std::string read_whole_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CHECK(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace ibid
