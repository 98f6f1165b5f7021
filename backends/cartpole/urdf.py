"""A cart with a chain of poles as URDF, from the model's numbers."""

from __future__ import annotations

from typing import Any

from .model import CartModel

__all__ = ["chain_urdf"]

_POINT = 1e-9  # kg m²: a point mass; the engine wants a positive number


def chain_urdf(model: CartModel[Any], rail: float = 1.0) -> str:
    """Return a URDF with the joints ``cart`` (prismatic along x) and ``pole1``, ``pole2``, … (revolute about y).

    A pole's joint angle is relative to what carries it, 0 where both point up.

    Args:
        model: Masses and lengths.
        rail: Half length of the drawn rail, m.
    """
    poles = ""
    parent, height = "cart", 0.0
    for number, (mass, length) in enumerate(model.poles, start=1):
        poles += _pole(f"pole{number}", parent, height, mass, length)
        parent, height = f"pole{number}", length
    return f"""<?xml version="1.0"?>
<robot name="cart">
  <link name="rail">
    <inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
    {_box_visual((2.0 * rail + 0.4, 0.03, 0.02), (0.0, 0.0, -0.06), "rail", (0.55, 0.55, 0.58))}
  </link>
  <link name="cart">
    {_inertial(model.cart_mass, 0.0, 0.01)}
    {_box_visual((0.24, 0.14, 0.09), (0.0, 0.0, 0.0), "cart", (0.16, 0.18, 0.22))}
  </link>
  <joint name="cart" type="prismatic">
    <parent link="rail"/><child link="cart"/><axis xyz="1 0 0"/>
    <limit lower="-1000" upper="1000" effort="100000" velocity="100000"/>
  </joint>
{poles}</robot>
"""


def _pole(name: str, parent: str, height: float, mass: float, length: float) -> str:
    return f"""  <link name="{name}">
    {_inertial(mass, length, _POINT)}
    <visual>
      <origin xyz="0 0 {length / 2}"/>
      <geometry><cylinder radius="0.012" length="{length}"/></geometry>
      <material name="rod"><color rgba="0.75 0.76 0.78 1"/></material>
    </visual>
    <visual>
      <origin xyz="0 0 {length}"/>
      <geometry><sphere radius="0.045"/></geometry>
      <material name="mass"><color rgba="0.95 0.70 0.05 1"/></material>
    </visual>
  </link>
  <joint name="{name}" type="continuous">
    <parent link="{parent}"/><child link="{name}"/><origin xyz="0 0 {height}"/><axis xyz="0 1 0"/>
    <limit effort="100000" velocity="100000"/>
  </joint>
"""


def _inertial(mass: float, height: float, inertia: float) -> str:
    return (
        f'<inertial><origin xyz="0 0 {height}"/><mass value="{mass}"/>'
        f'<inertia ixx="{inertia}" ixy="0" ixz="0" iyy="{inertia}" iyz="0" izz="{inertia}"/></inertial>'
    )


def _box_visual(
    size: tuple[float, float, float], origin: tuple[float, float, float], name: str, colour: tuple[float, float, float]
) -> str:
    def text(values: tuple[float, ...]) -> str:
        return " ".join(f"{value:g}" for value in values)

    return (
        f'<visual><origin xyz="{text(origin)}"/><geometry><box size="{text(size)}"/></geometry>'
        f'<material name="{name}"><color rgba="{text(colour)} 1"/></material></visual>'
    )
