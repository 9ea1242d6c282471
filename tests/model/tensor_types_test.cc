// The types in a file are arbitrary. A checkpoint in which one tensor has another type must load, or be refused with
// the tensor's name.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "model/load_model.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

namespace fs = std::filesystem;

// A safetensors file in memory.
struct Checkpoint {
  Json header;
  std::string data;

  explicit Checkpoint(const std::string& path) {
    const std::string file = read_whole_file(path);
    uint64_t n_bytes = 0;
    std::memcpy(&n_bytes, file.data(), sizeof n_bytes);
    header = *parse_json(std::string_view(file).substr(8, n_bytes), path);
    header.erase("__metadata__");
    data = file.substr(8 + n_bytes);
  }

  // Returns the file with another type of one tensor, whose bytes are repeated or truncated to fit.
  std::string with(const std::string& changed, const std::string& dtype, size_t n_type_bytes) const {
    Json names = Json::object();
    std::string bytes;
    for (const auto& [name, tensor] : header.items()) {
      const auto begin = tensor["data_offsets"][0].get<size_t>(), end = tensor["data_offsets"][1].get<size_t>();
      std::string own = data.substr(begin, end - begin);
      Json entry = tensor;
      if (name == changed) {
        size_t n = n_type_bytes;
        for (const Json& dim : tensor["shape"]) n *= dim.get<size_t>();
        while (own.size() < n) own += own;
        own.resize(n);
        entry["dtype"] = dtype;
      }
      entry["data_offsets"] = {bytes.size(), bytes.size() + own.size()};
      bytes += own;
      names[name] = std::move(entry);
    }
    std::string text = json_to_string(names);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t n_header = text.size();
    return std::string(reinterpret_cast<const char*>(&n_header), 8) + text + bytes;
  }
};

void expect_no_type_is_taken_for_granted(const std::string& directory) {
  SCOPED_TRACE(directory);
  const Checkpoint checkpoint(directory + "/model.safetensors");
  size_t n_refused = 0, n_loaded = 0;
  for (const auto& [name, tensor] : checkpoint.header.items()) {
    if (name.find(".1.") != std::string::npos || name.find(".2.") != std::string::npos) continue;  // as layer 0
    for (const auto& [dtype, n_bytes] : std::vector<std::pair<std::string, size_t>>{
             {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F64", 8}, {"I8", 1}, {"U8", 1}, {"I64", 8}, {"BOOL", 1}, {"F16", 2}}) {
      const TempDir dir;
      dir.write("config.json", read_whole_file(directory + "/config.json"));
      dir.write("model.safetensors", checkpoint.with(name, dtype, n_bytes));
      const auto file = open_model_file(dir.path());
      const Status status = file.ok() ? load_language_model(**file, {.n_threads = 1}).status() : file.status();
      if (status.ok()) {
        ++n_loaded;
      } else {
        ++n_refused;
        EXPECT_NE(status.message().find(name), std::string::npos) << dtype << ": " << status.message();
      }
    }
  }
  EXPECT_GT(n_refused, 20u);
  EXPECT_GT(n_loaded, 10u);
}

TEST(TensorTypes, EveryTypeOfEveryTensorLoadsOrIsRefusedByName) {
  for (const char* family : {"arcee", "llama4_text", "gemma4_experts"}) {
    expect_no_type_is_taken_for_granted(golden_dir() + "/families/" + family);
  }
}

// The biases of all experts are one matrix, which a RowSource may produce.
TEST(TensorTypes, ExpertBiasesOfAnyTypeLoadOrAreRefusedByName) {
  IBID_NEED_SHARED(shared);
  expect_no_type_is_taken_for_granted(shared + "/reference/tiny/gpt_oss");
}

}  // namespace
}  // namespace ibid
