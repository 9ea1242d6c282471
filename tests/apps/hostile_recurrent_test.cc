// GGUF files of recurrent models with a wrong size: in an otherwise valid file, every size of a state or convolution is
// replaced. Each file must give a typed error that names the key, the conflicting sizes, or the tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "apps/convert/convert_model.h"
#include "model/architectures/architectures.h"
#include "model/forward/transformer.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// Returns the offset of the 32-bit value of the first key that ends with `key`; npos if there is no such key.
size_t find_value(const std::string& bytes, const std::string& key) {
  const size_t at = bytes.find(key);
  if (at == std::string::npos) return at;
  uint32_t type = 0;
  std::memcpy(&type, bytes.data() + at + key.size(), sizeof(type));
  EXPECT_TRUE(type == 4 || type == 5) << key << " is not a 32-bit integer";
  return at + key.size() + sizeof(type);
}

Status load(const std::string& path) {
  TRY_ASSIGN(const std::unique_ptr<ModelFile> file, open_model_file(path));
  TRY_ASSIGN(ModelConfig config, read_config(*file));
  return TransformerModel::create(*file, std::move(config), {.n_threads = 1}).status();
}

TEST(HostileRecurrent, WrongSizesOfStatesAndConvolutionsAreRefused) {
  IBID_NEED_SHARED(shared);
  size_t n_tried = 0;
  for (const char* model : {"mamba2", "jamba", "lfm2", "lfm2_moe", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next",
                            "granitemoehybrid_mamba", "nemotron_h", "falcon_h1", "kimi_linear"}) {
    const TempDir dir;
    const std::string path = dir.file("model.gguf");
    const Result<Conversion> converted = convert_model(shared + "/reference/tiny/" + model, path, nullptr);
    ASSERT_TRUE(converted.ok()) << model << ": " << converted.status().to_string();
    ASSERT_TRUE(load(path).ok()) << model;
    std::ifstream in(path, std::ios::binary);
    const std::string sound((std::istreambuf_iterator<char>(in)), {});
    for (const char* key : {"ssm.conv_kernel", "shortconv.l_cache", "ssm.state_size", "ssm.group_count",
                            "ssm.time_step_rank", "ssm.inner_size"}) {
      const size_t at = find_value(sound, key);
      if (at == std::string::npos) continue;
      uint32_t was = 0;
      std::memcpy(&was, sound.data() + at, sizeof(was));
      for (const uint32_t value : {0u, was + 1, 3 * was + 1, 65'537u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
        SCOPED_TRACE(std::string(model) + ", " + key + " = " + std::to_string(value) + ", was " + std::to_string(was));
        std::string lying = sound;
        std::memcpy(lying.data() + at, &value, sizeof(value));
        std::ofstream(path, std::ios::binary | std::ios::trunc) << lying;
        const Status status = load(path);
        ++n_tried;
        if (status.ok()) {
          ADD_FAILURE() << "a file with a wrong size was loaded";
          continue;
        }
        EXPECT_THAT(status.message(), AnyOf(HasSubstr("ssm."), HasSubstr("shortconv."),
                                            HasSubstr("recurrent layers with "), HasSubstr("blk.")));
        EXPECT_THAT(status.code(), AnyOf(ErrorCode::kBadHyperparameter, ErrorCode::kBadNumber, ErrorCode::kBadShape,
                                         ErrorCode::kMismatch, ErrorCode::kMissingTensor));
      }
    }
  }
  EXPECT_GE(n_tried, 200u);
}

}  // namespace
}  // namespace ibid
