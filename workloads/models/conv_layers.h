#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace stretto {

/// Of ImageNet.
inline constexpr std::int64_t kImageClasses = 1000;

/// A convolution over the pixels around each pixel.
struct ConvShape {
  std::int64_t channels = 0;  ///< that come out
  std::int64_t y = 1, x = 1;  ///< pixels of the kernel
  std::int64_t stride = 1;    ///< pixels
  bool padded = true;         ///< so that with a stride of 1 as many pixels come out; else whole kernels alone
};

/// A convolution without bias, its batch normalization, and a rectifier.
class NormalizedConvolution final : public torch::nn::Module {
 public:
  /// `eps` as BatchNorm has it.
  NormalizedConvolution(std::int64_t inputs, const ConvShape& shape, double eps, bool rectified = true);
  at::Tensor forward(const at::Tensor& input);

 private:
  torch::nn::Conv2d conv_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  const bool rectified_;
};

/// One branch of a module of Inception networks: pooling, if there is any, convolutions one behind the other, and
/// behind the last of them, perhaps, several side by side.
struct BranchShape {
  enum class Pool {
    none,
    average,         ///< of 3×3 pixels, as many pixels come out
    largest,         ///< likewise
    largest_halved,  ///< of 3×3 pixels, every second one
  };
  Pool pool = Pool::none;
  std::vector<ConvShape> convs{};
  std::vector<ConvShape> side_by_side{};
};

/// Branches over one input, whose outputs are put together channel by channel (Szegedy et al., "Going Deeper with
/// Convolutions", 2015).
class InceptionModule final : public torch::nn::Module {
 public:
  InceptionModule(std::int64_t inputs, const std::vector<BranchShape>& branches, double eps);
  at::Tensor forward(const at::Tensor& input);
  std::int64_t outputs() const { return outputs_; }  ///< channels

 private:
  struct Branch {
    BranchShape::Pool pool;
    std::vector<std::shared_ptr<NormalizedConvolution>> convs, side_by_side;
  };
  std::vector<Branch> branches_;
  std::int64_t outputs_ = 0;
};

/// [image][channel] of [image][channel][y][x].
at::Tensor mean_over_pixels(const at::Tensor& features);

}  // namespace stretto
