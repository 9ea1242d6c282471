#include "apps/convert/convert_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/convert/conversion_types.h"
#include "base/file_ops.h"
#include "base/parallel.h"
#include "base/result.h"
#include "bench/lab/report.h"
#include "model/architectures/architectures.h"
#include "model/architectures/gguf_conversion.h"
#include "model/config/config.h"
#include "model/weights/finite_check.h"
#include "model/weights/unused_tensors.h"
#include "tokenizer/loading/gguf_vocabulary.h"
#include "weights/block_formats.h"
#include "weights/block_quantize.h"
#include "weights/gguf_reader.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {

namespace {

struct ConversionJob {
  std::string name;
  TensorView tensor;
  DType dtype;

  // Returns the tensor's view with the type that will be written and the data of the source.
  TensorView written() const {
    TensorView view = tensor;
    view.dtype = dtype;
    return view;
  }
};

// The model to convert, read from a GGUF file or a directory: tensors and metadata in the form of GGUF. Owns the open
// file from which the jobs read their tensors.
struct ConversionSource {
  std::unique_ptr<ModelFile> file;
  std::vector<GgufTensor> made;  // tensors in GGUF's form; only if the source is a directory
  ModelConfig config;            // only if the source is a directory
  std::vector<ConversionJob> jobs;
  GgufWriter writer;  // has all metadata and no tensors

  bool is_directory() const { return file->container() == Container::kSafetensors; }
};

constexpr std::string_view kFileTypeKey = "general.file_type";
constexpr std::string_view kVersionKey = "general.quantization_version";

// True for metadata that is not copied: entries of split files, and those that are rewritten.
bool is_replaced(const GgufEntry& entry, const FileType* file_type) {
  if (entry.key.starts_with("split.") || entry.key == "general.alignment") return true;
  return file_type != nullptr && (entry.key == kFileTypeKey || entry.key == kVersionKey);
}

void write_file_type(const FileType& file_type, GgufWriter& writer) {
  writer.add_u32(kFileTypeKey, file_type.gguf_number);
  if (dtype_is_quantized(file_type.matrices)) writer.add_u32(kVersionKey, 2);
}

Status take_gguf(ConversionSource& source, const FileType* file_type) {
  for (const GgufEntry& entry : gguf_entries(*source.file)) {
    if (!is_replaced(entry, file_type)) source.writer.add_entry(entry);
  }
  if (file_type != nullptr) write_file_type(*file_type, source.writer);
  const ModelFile& file = *source.file;
  ModelShape shape;
  shape.has_head = file.find_tensor("output.weight") != nullptr;
  TRY_ASSIGN(const auto architecture, file.get_string("general.architecture"));
  if (architecture) {
    TRY_ASSIGN(const auto n_layers, file.get_int(std::string(*architecture) + ".block_count"));
    shape.n_layers = n_layers ? static_cast<size_t>(std::max<int64_t>(*n_layers, 0)) : 0;
  }
  for (const std::string& name : file.tensor_names()) {
    const TensorView& tensor = *file.find_tensor(name);
    const DType dtype = file_type == nullptr ? tensor.dtype : converted_type(*file_type, name, tensor, shape);
    source.jobs.push_back({name, tensor, dtype});
  }
  return {};
}

// Returns the file type named after the tensor type that most weights have; nullptr: no file type has the name.
const FileType* type_of_most(const std::vector<ConversionJob>& jobs) {
  std::map<DType, uint64_t> values;
  for (const ConversionJob& job : jobs) values[job.dtype] += job.tensor.shape.elements();
  const auto most = std::ranges::max_element(values, {}, [](const auto& entry) { return entry.second; });
  return most == values.end() ? nullptr : find_file_type(most->first);
}

Status take_directory(ConversionSource& source, const FileType* file_type) {
  const ModelFile& file = *source.file;
  TRY_ASSIGN(source.config, read_config(file));
  TRY_ASSIGN(const ArchitectureMatch match, find_architecture(file));
  const Architecture* to = written_architecture(*match.row, source.config);
  if (to == nullptr) {
    return {ErrorCode::kUnsupported, file.path() + ": architecture '" + std::string(match.row->hf_model_type) +
                                         "' has no name in GGUF: use the original checkpoint"};
  }
  TRY_ASSIGN(source.made, gguf_tensors(file, source.config, *to));
  TRY(refuse_unknown_tensors(file, source.config));
  const auto is_head = [](const GgufTensor& tensor) { return tensor.name == "output.weight"; };
  const ModelShape shape{source.config.n_layers, std::ranges::any_of(source.made, is_head)};
  for (const GgufTensor& tensor : source.made) {
    TensorView written = tensor.view;
    written.dtype = tensor.dtype;
    const DType dtype = file_type == nullptr ? tensor.dtype : converted_type(*file_type, tensor.name, written, shape);
    source.jobs.push_back({tensor.name, tensor.view, dtype});
  }
  // Leave the model's factors out of the metadata, because they are already multiplied into the weights that are
  // written.
  if (to->recurrent.gguf_folds_factors) source.config = without_factors(source.config);
  TRY(write_gguf_keys(file, source.config, *to, source.writer));
  const std::filesystem::path path = std::filesystem::absolute(file.path()).lexically_normal();
  const std::filesystem::path directory = path.has_filename() ? path : path.parent_path();
  source.writer.add_string("general.name", directory.filename().string());
  const FileType* type = file_type != nullptr ? file_type : type_of_most(source.jobs);
  if (type != nullptr) write_file_type(*type, source.writer);
  return write_gguf_vocabulary(file, source.config.vocab_size, source.writer);
}

// Opens the model and lists the conversion jobs. If file_type is nullptr, tensors keep their type, except those for
// which GGUF requires F32, and those whose type GGUF does not have.
// Errors: those of open_model_file(), read_config(), gguf_tensors() and write_gguf_vocabulary().
Result<ConversionSource> open_conversion_source(const std::string& path, const FileType* file_type) {
  ConversionSource source;
  TRY_ASSIGN(source.file, open_model_file(path));
  TRY(source.is_directory() ? take_directory(source, file_type) : take_gguf(source, file_type));
  return source;
}

// Verifies that the file at `path`, converted from a directory, is the same model with the same tokenizer.
// Errors: those of check_same_model() and check_same_tokenizer(); those of reading it.
Status check_conversion(const ConversionSource& source, const std::string& path) {
  if (!source.is_directory()) return {};
  TRY_ASSIGN(const std::unique_ptr<ModelFile> written, open_model_file(path));
  TRY_ASSIGN(const ModelConfig config, read_config(*written));
  TRY(check_same_model(source.config, config, source.file->path()));
  return check_same_tokenizer(*source.file, *written);
}

// TensorEncoder: converts rows of tensors to another type, in parallel. Not thread-safe.
class TensorEncoder {
 public:
  // `path`: name of the model in errors. `team` must outlive the object.
  TensorEncoder(ThreadTeam& team, std::string path) : team_(team), path_(std::move(path)) {}

  // Encodes rows [first, first + n) of the job's tensor. The result is valid until the next call, or as long as the
  // file if no conversion was necessary. Errors: kNonFinite (a value is not finite, or too large for the type).
  Result<std::span<const std::byte>> encode(const ConversionJob& job, uint64_t first, uint64_t n);

 private:
  Status not_finite(const ConversionJob& job) const;
  bool encode_share(const ConversionJob& job, uint64_t first, Range own);

  ThreadTeam& team_;
  std::string path_;
  std::vector<std::byte> out_;
};

constexpr float kLargestHalf = 65504.0f;
constexpr size_t kRowsAtOnce = 16;  // rows read at once, because adjacent rows of a transposed matrix share cache lines

size_t bytes_of_row(DType dtype, uint64_t n_cols) {
  const BlockSize block = dtype_block(dtype);
  return n_cols / block.values * block.bytes;
}

// Encodes the rows `own` of the piece that starts at row `first`. Returns false if a value is not finite or does not
// fit.
bool TensorEncoder::encode_share(const ConversionJob& job, uint64_t first, Range own) {
  const TensorView& tensor = job.tensor;
  const uint64_t n_cols = tensor.shape[tensor.shape.rank - 1];
  const size_t in_bytes = tensor.row_bytes(), out_bytes = bytes_of_row(job.dtype, n_cols);
  const float limit = job.dtype == DType::kF16 ? kLargestHalf : std::numeric_limits<float>::max();
  const bool same = job.dtype == tensor.dtype;
  std::vector<std::byte> read(tensor.source != nullptr && !same ? kRowsAtOnce * in_bytes : 0);
  std::vector<float> floats(same ? 0 : n_cols);
  std::array<uint64_t, kRowsAtOnce> indices;
  for (size_t r = own.begin; r < own.end; r += kRowsAtOnce) {
    const size_t n = std::min(kRowsAtOnce, own.end - r);
    std::byte* out = &out_[r * out_bytes];
    const std::byte* in = tensor.source != nullptr ? read.data() : &tensor.data[(first + r) * in_bytes];
    if (tensor.source != nullptr) {
      for (size_t i = 0; i < n; ++i) indices[i] = tensor.first_row + first + r + i;
      tensor.source->read_rows(std::span(indices).first(n), same ? out : read.data());
    }
    if (same && !all_finite(job.dtype, {out, n * out_bytes})) return false;
    if (same) continue;
    for (size_t i = 0; i < n; ++i) {
      dequantize_row(tensor.dtype, {in + i * in_bytes, in_bytes}, floats);
      // Tests for "<=", because every comparison with NaN is false: a test for ">" would accept NaN.
      if (!std::ranges::all_of(floats, [&](float value) { return std::fabs(value) <= limit; })) return false;
      quantize_row(job.dtype, floats, {out + i * out_bytes, out_bytes});
    }
  }
  return true;
}

Status TensorEncoder::not_finite(const ConversionJob& job) const {
  return {ErrorCode::kNonFinite,
          path_ + ": tensor " + job.name + " holds a value that is not finite" + first_bad_element(job.tensor)};
}

Result<std::span<const std::byte>> TensorEncoder::encode(const ConversionJob& job, uint64_t first, uint64_t n) {
  const TensorView& tensor = job.tensor;
  const bool same = job.dtype == tensor.dtype;
  if (tensor.source == nullptr && same) {
    const size_t row_bytes = tensor.shape.rank == 0 ? tensor.data.size() : tensor.row_bytes();
    const std::span<const std::byte> rows = tensor.data.subspan(first * row_bytes, n * row_bytes);
    if (can_dequantize(job.dtype) && !all_finite(job.dtype, rows)) return not_finite(job);
    return rows;
  }
  out_.resize(n * bytes_of_row(job.dtype, tensor.shape[tensor.shape.rank - 1]));
  std::vector<char> fits(static_cast<size_t>(team_.size()), 1);
  team_.run([&](const Worker& worker) {
    if (!encode_share(job, first, worker.share(n))) fits[static_cast<size_t>(worker.index())] = 0;
  });
  if (std::ranges::find(fits, 0) == fits.end()) return std::span<const std::byte>(out_);
  if (same) return not_finite(job);
  return Status(ErrorCode::kNonFinite, path_ + ": tensor " + job.name + " holds a value that " +
                                           std::string(dtype_name(job.dtype)) +
                                           " cannot hold: not finite, or too large");
}

constexpr uint64_t kPieceValues = uint64_t{8} << 20;  // 32 MB as floats

// Converts or copies all tensors in order.
Status write_tensors(const ConversionSource& source, TensorEncoder& encoder, GgufStream& stream,
                     const ConversionControl& control) {
  ConversionProgress so_far;
  for (const ConversionJob& job : source.jobs) so_far.total += job.written().bytes();
  for (const ConversionJob& job : source.jobs) {
    const Shape& shape = job.tensor.shape;
    const uint64_t n_cols = shape.rank == 0 ? 1 : shape[shape.rank - 1];
    const uint64_t n_rows = n_cols == 0 ? 0 : shape.elements() / n_cols;
    const uint64_t step = std::max<uint64_t>(1, kPieceValues / std::max<uint64_t>(n_cols, 1));
    for (uint64_t first = 0; first < n_rows; first += step) {
      if (control.stop.stop_requested()) return {ErrorCode::kCancelled, "the conversion was stopped"};
      const uint64_t n = std::min(step, n_rows - first);
      TRY_ASSIGN(const std::span<const std::byte> encoded, encoder.encode(job, first, n));
      TRY(stream.write(encoded));
      // Release memory after every piece, because a single tensor may exceed the memory that a conversion should use.
      source.file->release(job.tensor);
      so_far.done += encoded.size();
      if (control.progress) control.progress(so_far);
    }
    TRY(stream.end_tensor(source.writer));
  }
  return {};
}

}  // namespace

Result<Conversion> convert_model(const std::string& in, const std::string& out, const FileType* file_type,
                                 const ConversionControl& control) {
  TRY_ASSIGN(ConversionSource source, open_conversion_source(in, file_type));
  Conversion conversion;
  for (const ConversionJob& job : source.jobs) {
    source.writer.declare_tensor(job.name, job.dtype, job.tensor.shape);
    ++conversion.tensors_of[std::string(dtype_name(job.dtype))];
    conversion.bytes = source.writer.padded_bytes(conversion.bytes + job.written().bytes());
  }
  conversion.bytes += source.writer.header().size();
  TRY_ASSIGN(const std::unique_ptr<ThreadTeam> team, ThreadTeam::create(0, OversubscriptionPolicy::kSkipLateThreads));
  TRY_ASSIGN(const std::unique_ptr<GgufStream> stream, GgufStream::create(system_file_ops(), out, source.writer));
  TensorEncoder encoder(*team, in);
  TRY(write_tensors(source, encoder, *stream, control));
  TRY(source.file->check_unchanged());
  TRY(stream->close());
  TRY(check_conversion(source, stream->temporary_path()));
  TRY(give_public_rights(stream->temporary_path(), out));
  TRY(stream->finish());
  return conversion;
}

}  // namespace ibid
