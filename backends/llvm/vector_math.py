"""Elementary functions on float32 values, scalars or vectors of any number of lanes.

Each is a range reduction, a polynomial and a reconstruction: straight-line code that calls nothing.
Products and sums are contracted where the target can (`muladd`), so results may differ by an ulp
between instruction sets, never between threads. The coefficients are minimax fits made here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ggufc.backends.llvm.kernel_builder import F32, F64, I32, I64, Operand, Type, Val

# Adding this to |x| < 2^22 (2^51 in float64) leaves round-half-even(x) in the low bits of the sum.
_ROUND_F32, _ROUND_F64 = 12582912.0, 6755399441055744.0
_ROUND_F32_BITS = 0x4B400000

# ln 2 in two parts; the first has 10 significant bits, so n * _LN2_HI is exact.
_LN2_HI, _LN2_LO = 0.693359375, -2.1219444005469057e-4
_LOG2_E = 1.0 / math.log(2.0)
# pi / 2 in two parts; the first has 29 significant bits: k * _PIO2_HI is exact in float64 to 2^24.
_PIO2_HI, _PIO2_LO = 1.570796325802803, 9.920935796805404e-10

# (e^r - 1 - r) / r^2 on |r| <= ln(2)/2.
_EXP = (0.4999999341, 0.1666652011, 0.04166839424, 0.00836878053, 0.001381446588)
_EXP_SHORT = (0.4999922881, 0.1666711631, 0.0418905517, 0.008312478681)
# 2^r on |r| <= 1/2, to 2 and to 48 units of 2^-24; 2^0 is exactly 1.
EXP2 = (1.0, 0.6931469776, 0.2402224208, 0.05550733749, 0.00967151277, 0.001326472542)
EXP2_SHORT = (1.0, 0.6931241931, 0.2402409865, 0.05590642663, 0.009582851596)
_EXPM1 = (
    0.5000000047,
    0.1666666682,
    0.04166635346,
    0.008333273205,
    0.001394110701,
    0.0001991409674,
)
# (x - sin x) / x^3 and (cos x - 1 + x^2/2) / x^4 in x^2, on |x| <= pi/4.
_SIN = (
    0.16666666641606692,
    -0.0083333293835568933,
    0.00019839334076517882,
    -2.7183041773799693e-06,
)
_COS = (
    0.041666666622792455,
    -0.0013888883750300732,
    2.4799519178154282e-05,
    -2.7210168358857802e-07,
)

# atanh(s) / s in s^2, for |s| <= 1/3: its series, whose rest is below 2e-9.
_ATANH = tuple(1.0 / (2 * i + 1) for i in range(8))

# erfc(a / sqrt 2) e^(a^2 / 2) / (2 t) in t = 1 / (1 + 0.35 a), for 0 <= a <= 15.
_TAIL_SLOPE = 0.35
_TAIL = (
    0.1396212586,
    0.1398643319,
    0.1198155338,
    0.1055746411,
    -0.02326341301,
    0.1593922441,
    -0.2559012378,
    0.1440604823,
    -0.02916385701,
)

_GELU_LINEAR = 2.0 * math.sqrt(2.0 / math.pi)
_GELU_CUBIC = 0.044715 * _GELU_LINEAR


def muladd(a: Val, b: Operand, c: Operand) -> Val:
    """a * b + c, fused where the target has an instruction for it, never a call."""
    args = [a, a.f.coerce(b, a.type), a.f.coerce(c, a.type)]
    return a.f.intrinsic("fmuladd", a.type, args, (a.type,))


def polynomial(x: Val, coefficients: Sequence[float]) -> Val:
    """sum of coefficients[i] x^i, by Horner's rule."""
    result = x.f.const(x.type, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = muladd(result, x, c)
    return result


def exp(x: Val) -> Val:
    """e^x within 2 ulp over the whole range, denormal results included; NaN stays, -inf gives 0."""
    f = x.f
    # The bounds lie beyond overflow and underflow to 0; comparisons this way round keep NaN.
    x = f.fmax(f.const(x.type, -104.0), f.fmin(f.const(x.type, 89.0), x))
    n, r = _reduce(x)
    p = muladd(r * r, polynomial(r, _EXP), r) + 1.0
    low = n.ashr(1)
    return p * _power_of_two(low) * _power_of_two(n - low)


def exp_nonpositive(x: Val) -> Val:
    """e^x for x <= 0 within 3 ulp, in a third fewer instructions than `exp`.

    Below -87.3, and at -inf, it is 0; NaN gives 0 or NaN.
    """
    f = x.f
    n, r = _reduce(x)
    p = muladd(r * r, polynomial(r, _EXP_SHORT), r) + 1.0
    scaled = (p.bitcast(n.type) + (n << 23)).bitcast(x.type)
    return f.select(x > -87.33654, scaled, f.const(x.type, 0.0))


def exp2_nonpositive(x: Val, coefficients: Sequence[float] = EXP2) -> Val:
    """2^x for x <= 0 within 3 ulp, with `EXP2_SHORT` to 3e-6; NaN stays.

    At and below -127, and at -inf, it is exactly 0; just above, some denormal number.
    """
    f = x.f
    x = f.fmax(f.const(x.type, -127.0), x)
    shifted = x + _ROUND_F32
    r = x - (shifted - _ROUND_F32)
    bits = polynomial(r, coefficients).bitcast(_integers(x.type))
    # The low bits of `shifted` are the exponent; at -127 it cancels that of 2^0 and leaves 0.
    return (bits + (shifted.bitcast(bits.type) << 23)).bitcast(x.type)


def tanh(x: Val) -> Val:
    """tanh within 4 ulp, near 0 too; NaN stays, the sign of 0 too."""
    f = x.f
    magnitude = f.fabs(x)
    # tanh is 1 to float32 from 9.02 on.
    n, r = _reduce(f.fmin(f.const(x.type, 10.0), magnitude) * 2.0)
    expm1 = muladd(r * r, polynomial(r, _EXPM1), r)
    scale = _power_of_two(n)
    expm1 = muladd(expm1, scale, scale - 1.0)
    return _copysign(expm1 / (expm1 + 2.0), x)


def silu(x: Val) -> Val:
    """x / (1 + e^-x), within 4 ulp; below -87, where e^x is denormal, within 1e-36."""
    return _gated(x, exp(-x.f.fabs(x)))


def gelu_tanh(x: Val) -> Val:
    """x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2.

    Within 4 ulp (or 1e-36) where the target has a fused multiply-add; elsewhere the relative error
    grows towards |y| ulp in the negative tail and stays below 2 ulp of x. Computed as
    x / (1 + e^-y), y = x (c1 + c2 x^2).
    """
    f = x.f
    a = f.fmin(f.const(x.type, 20.0), f.fabs(x))
    y, error = _gelu_exponent(a)
    e = exp(-y)
    return _gated(x, muladd(-e, error, e))


def gelu(x: Val) -> Val:
    """x times the probability that a standard normal number is below x.

    Within 8 ulp (or 1e-36) where the target has a fused multiply-add; elsewhere the relative error
    grows with x^2 in the negative tail. The error is below 4 ulp of x everywhere.
    """
    f = x.f
    a = f.fmin(f.const(x.type, 15.0), f.fabs(x))
    square = a * a
    lost = muladd(a, a, -square)
    e = exp(square * -0.5)
    t = f.const(x.type, 1.0) / muladd(a, _TAIL_SLOPE, 1.0)
    tail = muladd(e, lost * -0.5, e) * (t * polynomial(t, _TAIL))
    return x * f.select(x < 0.0, tail, f.const(x.type, 1.0) - tail)


def expm1_nonpositive(x: Val) -> Val:
    """e^x - 1 for x <= 0 within 3 ulp, near 0 too; -inf gives -1, NaN stays."""
    f = x.f
    n, r = _reduce(f.fmax(f.const(x.type, -104.0), x))
    p = muladd(r * r, polynomial(r, _EXPM1), r)
    # Below -87 the power of two is denormal, or 0: what is left of e^x does not count beside -1.
    scale = f.select(x < -87.0, f.const(x.type, 0.0), _power_of_two(n))
    return muladd(p, scale, scale - 1.0)


def softplus(x: Val) -> Val:
    """ln(1 + e^x) within 4 ulp, or 1e-36; NaN may become a number."""
    f = x.f
    e = exp(-f.fabs(x))
    # ln(1 + e) = 2 atanh(s) with s = e / (2 + e), at most 1/3.
    s = e / (e + 2.0)
    return f.fmax(f.const(x.type, 0.0), x) + s * polynomial(s * s, _ATANH) * 2.0


def sincos(angle: Val) -> tuple[Val, Val]:
    """(sine, cosine) of float32 angles, within 1 ulp up to |angle| = 2^24; reduced in float64."""
    f = angle.f
    x = angle.fpext(F64)
    wide = Type("i64", 64, angle.type.lanes)
    shifted = muladd(x, 2.0 / math.pi, _ROUND_F64)
    k = shifted - _ROUND_F64
    quadrant = shifted.bitcast(wide)
    r = muladd(k, -_PIO2_LO, muladd(k, -_PIO2_HI, x))
    sine, cosine = _sine_cosine(r)
    swap = (quadrant & 1).ne(0)
    sine, cosine = f.select(swap, cosine, sine), f.select(swap, sine, cosine)
    return _flip(sine, quadrant), _flip(cosine, quadrant + 1)


def _reduce(x: Val) -> tuple[Val, Val]:
    """Integer n and r with x = n ln 2 + r, |r| <= ln(2)/2; any n for NaN."""
    shifted = muladd(x, _LOG2_E, _ROUND_F32)
    n = shifted - _ROUND_F32
    r = muladd(n, -_LN2_LO, muladd(n, -_LN2_HI, x))
    return shifted.bitcast(_integers(x.type)) - _ROUND_F32_BITS, r


def _integers(type_: Type) -> Type:
    element = I64 if type_.bits == 64 else I32
    return Type(element.scalar, element.bits, type_.lanes)


def _power_of_two(n: Val) -> Val:
    """2^n as float32, for -127 < n < 128."""
    return ((n + 127) << 23).bitcast(Type(F32.scalar, 32, n.type.lanes))


def _copysign(magnitude: Val, sign: Val) -> Val:
    bits = _integers(sign.type)
    negative = sign.bitcast(bits) & -(1 << (bits.bits - 1))
    return (magnitude.bitcast(bits) | negative).bitcast(sign.type)


def _gated(x: Val, e: Val) -> Val:
    """x times the sigmoid of a number of x's sign whose magnitude y is given by e = e^-y."""
    f = x.f
    return x * f.select(x < 0.0, e, f.const(x.type, 1.0)) / (e + 1.0)


def _gelu_exponent(a: Val) -> tuple[Val, Val]:
    """y = a (c1 + c2 a^2) as a float32 and what its rounding lost, for a >= 0.

    e^-y would magnify the loss by y, up to 17 where the result is still normal.
    """
    square = a * a
    square_error = muladd(a, a, -square)
    product = square * _GELU_CUBIC
    product_error = muladd(square, _GELU_CUBIC, -product) + square_error * _GELU_CUBIC
    product_error = muladd(square, _rest(_GELU_CUBIC), product_error)
    total = product + _GELU_LINEAR
    # The smaller summand is not known, so both are recovered.
    part = total - product
    total_error = (product - (total - part)) + (-part + _GELU_LINEAR) + _rest(_GELU_LINEAR)
    y = a * total
    return y, muladd(a, total_error + product_error, muladd(a, total, -y))


def _rest(constant: float) -> float:
    """What rounding a constant to float32 leaves out."""
    mantissa, exponent = math.frexp(constant)
    return constant - math.ldexp(round(math.ldexp(mantissa, 24)), exponent - 24)


def _sine_cosine(r: Val) -> tuple[Val, Val]:
    """Sine and cosine of |r| <= pi/4 in float64."""
    square = r * r
    sine = muladd(-(r * square), polynomial(square, _SIN), r)
    tail = muladd(square, polynomial(square, _COS), -0.5)
    return sine, muladd(square, tail, 1.0)


def _flip(x: Val, quadrant: Val) -> Val:
    """x rounded to float32, negated in quadrants 2 and 3."""
    sign = (quadrant & 2) << 62
    return (x.bitcast(quadrant.type) ^ sign).bitcast(x.type).fptrunc(F32)
