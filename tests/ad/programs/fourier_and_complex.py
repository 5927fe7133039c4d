"""Transforms and complex arithmetic inside programs whose arguments and results are real."""

from __future__ import annotations

import numpy

from .cases import STORED, group, normal, uniform

case = group("fft and complex")


@case((normal(1, 8),), lambda x: 16 * x, kind="grad")
def parseval(np, x):
    return np.sum(np.abs(np.fft.fft(x)) ** 2)


@case((normal(2, 7),), lambda bars, x: numpy.real(numpy.fft.fft(bars[0] - 1j * bars[1])))
def real_and_imaginary_parts(np, x):
    """The transform's matrix is symmetric: Re and Im are cos and -sin, and so are their transposes."""
    spectrum = np.fft.fft(x)
    return np.real(spectrum), np.imag(spectrum)


@case((normal(3, 8),), lambda bar, x: -numpy.real(numpy.fft.ifft(1j * numpy.fft.fftfreq(8, 1 / 8) * numpy.fft.fft(bar))))
def spectral_derivative(np, x):
    """Skew, so that its transpose is its negative. (The frequency -4 gives an imaginary part, which is dropped.)"""
    k = np.fft.fftfreq(8, 1 / 8)
    return np.real(np.fft.ifft(1j * k * np.fft.fft(x)))


def _circulant(k):
    return numpy.array([[k[(i - j) % len(k)] for j in range(len(k))] for i in range(len(k))])


@case((normal(4, 6), normal(5, 6)), lambda bar, x, k: (_circulant(k).T @ bar, _circulant(x).T @ bar))
def circular_convolution(np, x, k):
    return np.real(np.fft.ifft(np.fft.fft(x) * np.fft.fft(k)))


LOW_PASS = numpy.array([1.0, 1.0, 0.5, 0.0, 0.0])


@case((normal(6, 8),), lambda bar, x: numpy.fft.irfft(numpy.fft.rfft(bar) * LOW_PASS, 8))
def low_pass_with_the_real_transform(np, x):
    """A real symmetric filter is its own transpose."""
    return np.fft.irfft(np.fft.rfft(x) * LOW_PASS, 8)


@case((normal(7, 7),), STORED)
def power_spectrum_of_an_odd_length(np, x):
    spectrum = np.fft.rfft(x)
    return np.real(spectrum) ** 2 + np.imag(spectrum) ** 2


@case((normal(8, 4, 6),), lambda x: 2 * 24 * x, kind="grad")
def parseval_in_two_dimensions(np, x):
    return np.sum(np.abs(np.fft.fft2(x)) ** 2)


@case((normal(9, 3, 8),), STORED)
def transform_of_rows(np, x):
    spectrum = np.fft.fft(np.sin(x), axis=1)
    return np.real(spectrum * np.conj(spectrum)) * np.arange(8)


@case((0.25, 0.4), STORED, kind="grad")
def escape_iteration(np, a, b):
    """z -> z^2 + c until |z| > 2: the modulus after the last step taken."""
    c = a + 1j * b
    z = 0.0 * c
    for _ in range(40):
        z = z * z + c
        if np.abs(z) > 1.2:
            break
    return np.abs(z) ** 2


@case((-0.6, 0.7), STORED, kind="grad", difference_step=1e-4)
def escape_iteration_that_leaves_early(np, a, b):
    z = c = a + 1j * b
    steps = 0
    while np.abs(z) < 2.0 and steps < 50:
        z = z * z + c
        steps += 1
    return np.real(z) * np.imag(z)


@case((0.7, normal(10, 2)), lambda bar, t, p: (bar @ _turned(t + numpy.pi / 2, p), numpy.array(_turned(-t, bar))))
def rotation_by_a_phase(np, t, p):
    turned = np.exp(1j * t) * (p[0] + 1j * p[1])
    return np.stack([np.real(turned), np.imag(turned)])


def _turned(t, p):
    c, s = numpy.cos(t), numpy.sin(t)
    return numpy.array([c * p[0] - s * p[1], s * p[0] + c * p[1]])


@case((normal(11, 4), 0.4, 0.3), STORED, kind="grad")
def modulus_of_a_polynomial_by_horner(np, coefficients, a, b):
    z, value = a + 1j * b, 0.0
    for c in coefficients:
        value = value * z + c
    return np.abs(value)


@case((normal(12, 3) + 3, normal(13, 3)), lambda bar, a, b: (-bar * b / (a * a + b * b), bar * a / (a * a + b * b)))
def phase(np, a, b):
    return np.angle(a + 1j * b)


@case(
    (numpy.array([0.0, 3.0]), numpy.array([0.0, 4.0])),
    lambda bar, a, b: (bar * [0, 0.6], bar * [0, 0.8]),
    exact_zeros=True,
    differences=False,
)
def modulus_at_zero(np, a, b):
    return np.abs(a + 1j * b)


@case((normal(14, 8), uniform(15, 0.1, 1.0, 8)), STORED)
def schroedinger_split_step(np, psi, potential):
    """Half a kick, a drift in frequency, half a kick; the density afterwards."""
    k = np.fft.fftfreq(8, 1 / 8)
    kick = np.exp(-0.05j * potential)
    for _ in range(3):
        psi = kick * np.fft.ifft(np.exp(-0.05j * k**2) * np.fft.fft(kick * psi))
    return np.abs(psi) ** 2


@case((normal(16, 4), normal(17, 4)), lambda bar, a, b: (bar[:4], bar[4:]))
def complex_array_filled_in_a_loop(np, a, b):
    z = np.zeros(4, dtype=complex)
    for i in range(4):
        z[i] = a[i] + 1j * b[i]
    return np.concatenate([z.real, z.imag])


@case((normal(18, 6),), STORED, kind="hvp")
def twice_derived_through_a_transform(np, x):
    spectrum = np.fft.fft(np.sin(x))
    return np.sum(np.abs(spectrum) ** 2 * np.arange(6))
