#include "apps/convert/convert_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/file_ops.h"
#include "base/parallel.h"
#include "weights/block_formats.h"
#include "weights/block_quantize.h"
#include "weights/gguf_reader.h"
#include "weights/gguf_stream.h"
#include "weights/gguf_writer.h"

namespace ibid {

namespace {

constexpr uint64_t kPieceValues = uint64_t{8} << 20;  // 32 MB as floats
constexpr float kLargestHalf = 65504.0f;

// A tensor and the type that it will have.
struct Job {
  std::string name;
  TensorView tensor;
  DType dtype;
};

// What only a split file has, and what is written anew.
bool is_replaced(const GgufEntry& entry, const FileType* file_type) {
  if (entry.key.starts_with("split.") || entry.key == "general.alignment") return true;
  const bool of_type = entry.key == "general.file_type" || entry.key == "general.quantization_version";
  return file_type != nullptr && of_type;
}

void copy_metadata(const std::vector<GgufEntry>& entries, const FileType* file_type, GgufWriter& writer) {
  for (const GgufEntry& entry : entries) {
    if (!is_replaced(entry, file_type)) writer.add_entry(entry);
  }
  if (file_type == nullptr) return;
  writer.add_u32("general.file_type", file_type->gguf_number);
  if (file_type->matrices != DType::kF16) writer.add_u32("general.quantization_version", 2);
}

Result<std::vector<Job>> list_jobs(const ModelFile& file, const FileType* file_type) {
  ModelShape shape;
  shape.has_head = file.find_tensor("output.weight") != nullptr;
  TRY_ASSIGN(const auto architecture, file.get_string("general.architecture"));
  if (architecture) {
    TRY_ASSIGN(const auto n_layers, file.get_int(std::string(*architecture) + ".block_count"));
    shape.n_layers = n_layers ? static_cast<size_t>(std::max<int64_t>(*n_layers, 0)) : 0;
  }
  std::vector<Job> jobs;
  for (const std::string& name : file.tensor_names()) {
    const TensorView& tensor = *file.find_tensor(name);
    const DType dtype = file_type == nullptr ? tensor.dtype : converted_type(*file_type, name, tensor, shape);
    jobs.push_back({name, tensor, dtype});
  }
  return jobs;
}

// Decodes and encodes whole rows of tensors, the rows of a piece shared among threads.
class Encoder {
 public:
  Encoder(ThreadTeam& team, std::string path) : team_(team), path_(std::move(path)) {}

  // Rows [first, first + n) of the job's tensor, encoded; valid until the next call.
  Result<std::span<const std::byte>> encode(const Job& job, uint64_t first, uint64_t n) {
    const uint64_t n_cols = job.tensor.shape[job.tensor.shape.rank - 1];
    const BlockSize block = dtype_block(job.dtype);
    const size_t row_bytes = n_cols / block.values * block.bytes;
    floats_.resize(n * n_cols);
    out_.resize(n * row_bytes);
    const float limit = job.dtype == DType::kF16 ? kLargestHalf : std::numeric_limits<float>::max();
    std::vector<char> fits(static_cast<size_t>(team_.size()), 1);
    team_.run([&](const Worker& worker) {
      const Range own = worker.share(n);
      for (size_t r = own.begin; r < own.end; ++r) {
        const std::span<float> row = std::span(floats_).subspan(r * n_cols, n_cols);
        const size_t in_file = job.tensor.row_bytes();
        dequantize_row(job.tensor.dtype, job.tensor.data.subspan((first + r) * in_file, in_file), row);
        // Not fabs(value) > limit, which NaN is not.
        const bool fit = std::ranges::all_of(row, [&](float value) { return std::fabs(value) <= limit; });
        if (!fit) {
          fits[static_cast<size_t>(worker.index())] = 0;
          return;
        }
        quantize_row(job.dtype, row, std::span(out_).subspan(r * row_bytes, row_bytes));
      }
    });
    if (std::ranges::find(fits, 0) == fits.end()) return std::span<const std::byte>(out_);
    return Status(ErrorCode::kNonFinite, path_ + ": tensor " + job.name + " holds a value that " +
                                             std::string(dtype_name(job.dtype)) +
                                             " cannot hold: not finite, or too large");
  }

 private:
  ThreadTeam& team_;
  std::string path_;
  std::vector<float> floats_;
  std::vector<std::byte> out_;
};

// Copies or encodes all tensors in their order.
Status write_tensors(const ModelFile& file, const std::vector<Job>& jobs, const GgufWriter& writer, Encoder& encoder,
                     GgufStream& stream, const std::function<void(const ConversionProgress&)>& progress) {
  ConversionProgress so_far;
  for (const Job& job : jobs) so_far.total += job.tensor.shape.elements();
  for (const Job& job : jobs) {
    const Shape& shape = job.tensor.shape;
    const uint64_t n_cols = shape.rank == 0 ? 1 : shape[shape.rank - 1];
    const uint64_t n_rows = n_cols == 0 ? 0 : shape.elements() / n_cols;
    const uint64_t step = std::max<uint64_t>(1, kPieceValues / std::max<uint64_t>(n_cols, 1));
    const size_t row_bytes = shape.rank == 0 ? job.tensor.data.size() : job.tensor.row_bytes();
    for (uint64_t first = 0; first < n_rows; first += step) {
      const uint64_t n = std::min(step, n_rows - first);
      if (job.dtype == job.tensor.dtype) {
        TRY(stream.write(job.tensor.data.subspan(first * row_bytes, n * row_bytes)));
      } else {
        TRY_ASSIGN(const std::span<const std::byte> encoded, encoder.encode(job, first, n));
        TRY(stream.write(encoded));
      }
      so_far.done += n * n_cols;
      progress(so_far);
    }
    TRY(stream.end_tensor(writer));
    file.release(job.tensor);
  }
  return {};
}

}  // namespace

Result<Conversion> convert_model(const std::string& in, const std::string& out, const FileType* file_type,
                                 const std::function<void(const ConversionProgress&)>& progress) {
  TRY_ASSIGN(const std::unique_ptr<ModelFile> file, open_model_file(in));
  if (file->container() != Container::kGguf) {
    return Status(ErrorCode::kUnsupported, in + ": is not a GGUF model; GGUF is what can be converted");
  }
  TRY_ASSIGN(const std::vector<Job> jobs, list_jobs(*file, file_type));
  GgufWriter writer;
  copy_metadata(gguf_entries(*file), file_type, writer);
  Conversion conversion;
  for (const Job& job : jobs) {
    writer.declare_tensor(job.name, job.dtype, job.tensor.shape);
    ++conversion.tensors_of[std::string(dtype_name(job.dtype))];
    TensorView written = job.tensor;
    written.dtype = job.dtype;
    conversion.bytes = writer.padded_bytes(conversion.bytes + written.bytes());
  }
  conversion.bytes += writer.header().size();
  TRY_ASSIGN(const std::unique_ptr<ThreadTeam> team, ThreadTeam::create(0, WhenCrowded::kGiveWay));
  TRY_ASSIGN(const std::unique_ptr<GgufStream> stream, GgufStream::create(system_file_ops(), out, writer));
  Encoder encoder(*team, in);
  TRY(write_tensors(*file, jobs, writer, encoder, *stream, progress));
  TRY(file->check_unchanged());
  TRY(stream->finish());
  return conversion;
}

}  // namespace ibid
