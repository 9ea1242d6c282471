#include "apps/convert/convert_model.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/convert/conversion_source.h"
#include "apps/convert/tensor_encoder.h"
#include "base/file_ops.h"
#include "base/parallel.h"
#include "bench/lab/public_file.h"
#include "weights/gguf_writer.h"

namespace ibid {

namespace {

constexpr uint64_t kPieceValues = uint64_t{8} << 20;  // 32 MB as floats

// Copies or encodes all tensors in their order.
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
      // Behind every piece, not every tensor: one may be larger than what memory is meant to hold.
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
  TRY_ASSIGN(const std::unique_ptr<ThreadTeam> team, ThreadTeam::create(0, WhenCrowded::kGiveWay));
  TRY_ASSIGN(const std::unique_ptr<GgufStream> stream,
             GgufStream::create(system_file_ops(), out, source.writer));
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
