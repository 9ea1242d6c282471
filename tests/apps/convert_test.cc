#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "apps/convert/conversion_types.h"
#include "apps/convert/convert_model.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/pseudo_terminal.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/block_formats.h"
#include "weights/block_quantize.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

using testing::HasSubstr;

TensorView matrix(DType dtype, uint64_t rows, uint64_t cols) {
  TensorView view;
  view.dtype = dtype;
  view.shape = Shape{{rows, cols}, 2};
  return view;
}

TEST(ConversionTypes, EachTensorGetsTheTypeThatLlamaCppChoosesForTheFileType) {
  const TensorView wide = matrix(DType::kF32, 8, 512), narrow = matrix(DType::kF32, 8, 96);
  const TensorView odd = matrix(DType::kF32, 8, 50), kept = matrix(DType::kBF16, 8, 512);
  TensorView vector = matrix(DType::kF32, 1, 1);
  vector.shape = Shape{{512}, 1};
  const ModelShape with_head{16, true}, tied{16, false};
  const FileType& mixed = *find_file_type("Q4_K_M");
  EXPECT_EQ(converted_type(mixed, "blk.5.attn_q.weight", wide, with_head), DType::kQ4_K);
  EXPECT_EQ(converted_type(mixed, "blk.5.attn_q.weight", narrow, with_head), DType::kQ5_0);
  EXPECT_EQ(converted_type(mixed, "blk.5.attn_q.weight", odd, with_head), DType::kF16);
  EXPECT_EQ(converted_type(mixed, "output.weight", wide, with_head), DType::kQ6_K);
  EXPECT_EQ(converted_type(mixed, "token_embd.weight", wide, with_head), DType::kQ4_K);
  EXPECT_EQ(converted_type(mixed, "token_embd.weight", wide, tied), DType::kQ6_K);
  EXPECT_EQ(converted_type(mixed, "token_embd.weight", narrow, tied), DType::kQ8_0);
  // The layers of 16 that have the larger type: 0, 1, every third from 4 to 13, 14 and 15.
  std::vector<size_t> larger;
  for (size_t l = 0; l < 16; ++l) {
    const std::string name = "blk." + std::to_string(l) + ".ffn_down.weight";
    if (converted_type(mixed, name, wide, with_head) == DType::kQ6_K) larger.push_back(l);
  }
  EXPECT_THAT(larger, testing::ElementsAre(0u, 1u, 4u, 7u, 10u, 13u, 14u, 15u));
  const FileType& plain = *find_file_type("Q4_0");
  EXPECT_EQ(converted_type(plain, "blk.0.ffn_down.weight", wide, with_head), DType::kQ4_0);
  EXPECT_EQ(converted_type(plain, "output.weight", wide, with_head), DType::kQ6_K);
  EXPECT_EQ(converted_type(plain, "blk.0.attn_norm.weight", vector, with_head), DType::kF32);
  EXPECT_EQ(converted_type(plain, "blk.0.ffn_gate_inp.weight", kept, with_head), DType::kBF16);
  EXPECT_EQ(converted_type(plain, "blk.0.attn_q.bias", kept, with_head), DType::kBF16);
  EXPECT_EQ(find_file_type("Q3_K_M"), nullptr);
}

mode_t rights_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

class Convert : public testing::Test {
 protected:
  std::string write_tiny() {
    TinyModel tiny;
    tiny.dim = 256, tiny.ffn_dim = 512, tiny.head_dim = 64, tiny.n_layers = 2;
    write_tiny_model(tiny, dir_.file("in.gguf"));
    return dir_.file("in.gguf");
  }
  std::unique_ptr<ModelFile> open(const std::string& path) {
    auto file = open_model_file(path);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    return std::move(file).value();
  }

  TempDir dir_;
};

TEST_F(Convert, ConversionWithoutATypeCopiesEveryByte) {
  const std::string in = write_tiny(), out = dir_.file("out.gguf");
  const Result<Conversion> done = convert_model(in, out, nullptr);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_EQ(read_whole_file(out), read_whole_file(in));
  EXPECT_EQ(done->bytes, read_whole_file(out).size());
}

TEST_F(Convert, ConvertedTensorsOfEveryTypeEqualTheOutputOfTheEncoder) {
  const std::string in = write_tiny(), out = dir_.file("out.gguf");
  const auto before = open(in);
  for (const char* name : {"F16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K_M", "Q5_K_M", "Q6_K"}) {
    SCOPED_TRACE(name);
    ConversionProgress last{0, 1};
    const Result<Conversion> converted =
        convert_model(in, out, find_file_type(name), {[&](const ConversionProgress& progress) { last = progress; }});
    ASSERT_TRUE(converted.ok()) << converted.status().to_string();
    EXPECT_EQ(last.done, last.total);
    EXPECT_EQ(converted->bytes, read_whole_file(out).size());
    const auto after = open(out);
    EXPECT_EQ(after->tensor_names(), before->tensor_names());
    EXPECT_EQ(*after->get_int("general.file_type").value(), find_file_type(name)->gguf_number);
    EXPECT_EQ(after->get_int("llama.block_count").value(), before->get_int("llama.block_count").value());
    bool changed = false;
    uint64_t bytes = 0;
    for (const std::string& tensor : before->tensor_names()) {
      bytes += after->find_tensor(tensor)->bytes();
      const TensorView& from = *before->find_tensor(tensor);
      const TensorView& to = *after->find_tensor(tensor);
      ASSERT_EQ(to.shape, from.shape);
      std::vector<float> values(from.shape.elements());
      std::memcpy(values.data(), from.data.data(), from.data.size());
      std::vector<std::byte> wanted(to.data.size());
      quantize_row(to.dtype, values, wanted);
      EXPECT_EQ(std::memcmp(wanted.data(), to.data.data(), wanted.size()), 0) << tensor;
      changed |= to.dtype != from.dtype;
    }
    EXPECT_TRUE(changed);
    EXPECT_EQ(last.total, bytes);
  }
}

TEST_F(Convert, SplitModelBecomesOneFile) {
  const std::vector<float> values(64, 0.5f);
  for (uint16_t number = 0; number < 2; ++number) {
    GgufWriter part;
    if (number == 0) part.add_string("general.architecture", "llama");
    part.add_u16("split.no", number);
    part.add_u16("split.count", 2);
    add_tensor_of(part, number == 0 ? "a" : "b", DType::kF32, {{2, 32}, 2}, values);
    dir_.write(number == 0 ? "m-00001-of-00002.gguf" : "m-00002-of-00002.gguf", part.bytes());
  }
  GgufWriter whole;
  whole.add_string("general.architecture", "llama");
  add_tensor_of(whole, "a", DType::kF32, {{2, 32}, 2}, values);
  add_tensor_of(whole, "b", DType::kF32, {{2, 32}, 2}, values);
  ASSERT_TRUE(convert_model(dir_.file("m-00002-of-00002.gguf"), dir_.file("out.gguf"), nullptr).ok());
  EXPECT_EQ(read_whole_file(dir_.file("out.gguf")), whole.bytes());
}

TEST_F(Convert, OutputHasUmaskPermissionsOrThoseOfTheOldFile) {
  const std::string in = write_tiny(), out = dir_.file("out.gguf");
  const mode_t before = ::umask(027);
  EXPECT_TRUE(convert_model(in, out, nullptr).ok());
  EXPECT_EQ(rights_of(out), 0640u);
  ASSERT_EQ(::chmod(out.c_str(), 0604), 0);
  EXPECT_TRUE(convert_model(in, out, nullptr).ok());
  EXPECT_EQ(rights_of(out), 0604u);  // the permissions of the replaced file
  ::umask(before);
}

TEST_F(Convert, CancelledConversionLeavesNoFile) {
  const std::string in = write_tiny(), out = dir_.file("out.gguf");
  std::stop_source stop;
  size_t n_pieces = 0;
  const auto stop_at_third = [&](const ConversionProgress&) {
    if (++n_pieces == 3) stop.request_stop();
  };
  const Status status = convert_model(in, out, nullptr, {stop_at_third, stop.get_token()}).status();
  EXPECT_EQ(status.code(), ErrorCode::kCancelled) << status.to_string();
  EXPECT_EQ(n_pieces, 3u);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("in.gguf"));
}

TEST_F(Convert, ProgressIsShownOnTerminalsWithSequencesOnly) {
  const std::string in = write_tiny(), out = dir_.file("out.gguf");
  for (const char* term : {"dumb", "xterm-256color"}) {
    SCOPED_TRACE(term);
    PseudoTerminal terminal({IBID_PROGRAM, "convert", in, out}, {.environment = {{"TERM", term}}});
    EXPECT_EQ(terminal.exit_status(), 0);
    const bool obeys = term == std::string_view("xterm-256color");
    EXPECT_EQ(terminal.bytes().find('\x1b') != std::string::npos, obeys);
    EXPECT_EQ(terminal.bytes().find(" of ") != std::string::npos, obeys);
  }
}

TEST_F(Convert, ValueOutOfRangeOfTheTypeIsReported) {
  const std::string out = dir_.write("out.gguf", "old");
  for (const float value : {70000.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    GgufWriter writer;
    writer.add_string("general.architecture", "llama");
    std::vector<float> values(64, 1.0f);
    values[40] = value;
    add_tensor_of(writer, "blk.0.attn_q.weight", DType::kF32, {{2, 32}, 2}, values);
    const std::string in = dir_.write("in.gguf", writer.bytes());
    const Status status = convert_model(in, out, find_file_type("F16")).status();
    EXPECT_EQ(status.code(), ErrorCode::kNonFinite) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("tensor blk.0.attn_q.weight holds a value that F16 cannot hold"));
    EXPECT_EQ(read_whole_file(out), "old");
  }
}

// A copy of a damaged model would be damaged too.
TEST_F(Convert, NonFiniteWeightIsReportedEvenIfCopied) {
  const std::string out = dir_.write("out.gguf", "old");
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    GgufWriter writer;
    writer.add_string("general.architecture", "llama");
    std::vector<float> values(64, 1.0f);
    values[40] = std::nanf("");
    add_tensor_of(writer, "blk.0.attn_q.weight", dtype, {{2, 32}, 2}, values);
    const Status status = convert_model(dir_.write("in.gguf", writer.bytes()), out, nullptr).status();
    EXPECT_EQ(status.code(), ErrorCode::kNonFinite) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("tensor blk.0.attn_q.weight holds a value that is not finite at [1, 8]"));
    EXPECT_EQ(read_whole_file(out), "old");
  }
}

// The encoders' search for scales is worth its time only if this holds.
TEST(Encoders, EncodersHaveNoLargerErrorThanGgml) {
  std::vector<float> values(256 * 64);
  uint64_t state = 1;
  for (float& value : values) {  // approximately a normal distribution: each value is a sum of twelve uniform ones
    value = -6;
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      value += static_cast<float>(state >> 40) * 0x1p-24f;
    }
  }
  const auto error_of = [&](DType dtype) {
    std::vector<std::byte> blocks(values.size() / 256 * dtype_block(dtype).bytes);
    std::vector<float> got(values.size());
    quantize_row(dtype, values, blocks);
    dequantize_row(dtype, blocks, got);
    double error = 0;
    for (size_t i = 0; i < got.size(); ++i) error += std::pow(double{got[i]} - double{values[i]}, 2);
    return std::sqrt(error / static_cast<double>(got.size()));
  };
  const double q4 = error_of(DType::kQ4_K), q5 = error_of(DType::kQ5_K), q6 = error_of(DType::kQ6_K);
  std::printf("root mean square errors of unit normals: Q4_K %.4f, Q5_K %.4f, Q6_K %.4f\n", q4, q5, q6);
  // The bounds are the errors of ggml_quantize_chunk for the same values. Scales from the extremes alone would give
  // 0.0770, 0.0375, 0.0185.
  EXPECT_LE(q4, 0.06987);
  EXPECT_LE(q5, 0.03567);
  EXPECT_LE(q6, 0.01745);
}

}  // namespace
}  // namespace ibid
