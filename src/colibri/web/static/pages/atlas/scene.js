// The cloud of experts, drawn with WebGL2: one point an expert, seen from outside, turned by hand.

const VERTEX = `#version 300 es
in vec3 place;
in vec4 tint;
in float size;
uniform mat3 turn;
uniform vec2 scale;
uniform float zoom;
uniform float ratio;
out vec4 colour;
out float weight;
void main() {
  vec3 seen = turn * place;
  float depth = 1.0 / (2.6 - seen.z);
  gl_Position = vec4(seen.xy * scale * zoom * depth * 2.6, -seen.z * 0.3, 1.0);
  gl_PointSize = max(2.0, size * ratio * depth * 2.6 * sqrt(zoom));
  weight = clamp(0.55 + 0.45 * seen.z, 0.25, 1.0);
  colour = tint;
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 colour;
in float weight;
out vec4 shown;
void main() {
  vec2 from = gl_PointCoord * 2.0 - 1.0;
  float far = dot(from, from);
  if (far > 1.0) discard;
  float edge = 1.0 - smoothstep(0.72, 1.0, far);
  shown = vec4(colour.rgb * colour.a * edge * weight, colour.a * edge * weight);
}`;

export class Scene {
  /** Throws where there is no WebGL2. */
  constructor(canvas) {
    this.canvas = canvas;
    const gl = canvas.getContext("webgl2", { alpha: true, antialias: true, premultipliedAlpha: true });
    if (!gl) throw new Error("no WebGL2");
    this.gl = gl;
    this.program = link(gl);
    this.turn = turnOf(-0.35, 0.5);
    this.zoom = 1.35;
    this.count = 0;
    this.stale = true;
    this.frames = 0;
  }

  /** places [n * 3], tints [n * 4] of 0..1, sizes [n] in CSS pixels. */
  load(places, tints, sizes) {
    const { gl, program } = this;
    this.places = places;
    this.sizes = sizes;
    this.count = sizes.length;
    this.vertices ??= gl.createVertexArray();
    gl.bindVertexArray(this.vertices);
    this.buffers ??= {};
    for (const [name, data, width] of [
      ["place", places, 3],
      ["tint", tints, 4],
      ["size", sizes, 1],
    ]) {
      this.buffers[name] ??= gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
      gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
      const at = gl.getAttribLocation(program, name);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, width, gl.FLOAT, false, 0, 0);
    }
    this.stale = true;
  }

  /** Browsers have only so many contexts. */
  close() {
    this.count = 0;
    if (!this.gl.isContextLost()) this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  resize(width, height, ratio) {
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.stale = true;
  }

  /** By so many radians, about the screen's axes. */
  rotate(dx, dy) {
    this.turn = product(turnOf(dy, dx), this.turn);
    this.stale = true;
  }

  magnify(factor) {
    this.zoom = Math.max(0.5, Math.min(12, this.zoom * factor));
    this.stale = true;
  }

  draw() {
    if (!this.stale || !this.width || !this.count) return false;
    const { gl, program } = this;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.uniformMatrix3fv(gl.getUniformLocation(program, "turn"), false, columns(this.turn));
    gl.uniform2f(gl.getUniformLocation(program, "scale"), ...this.#scale());
    gl.uniform1f(gl.getUniformLocation(program, "zoom"), this.zoom);
    gl.uniform1f(gl.getUniformLocation(program, "ratio"), this.ratio);
    gl.bindVertexArray(this.vertices);
    gl.drawArrays(gl.POINTS, 0, this.count);
    this.stale = false;
    this.frames++;
    return true;
  }

  /** A place on the canvas in CSS pixels, and how near it is (-1..1). */
  project(x, y, z) {
    const seen = this.turn.map((row) => row[0] * x + row[1] * y + row[2] * z);
    const depth = (2.6 * this.zoom) / (2.6 - seen[2]);
    const [sx, sy] = this.#scale();
    return {
      x: ((seen[0] * sx * depth + 1) * this.width) / 2,
      y: ((1 - seen[1] * sy * depth) * this.height) / 2,
      z: seen[2],
    };
  }

  /** The frontmost point at CSS pixels, or -1. */
  pick(x, y) {
    let found = -1;
    let nearest = -2;
    for (let i = 0; i < this.count; i++) {
      const seen = this.project(this.places[i * 3], this.places[i * 3 + 1], this.places[i * 3 + 2]);
      const reach = Math.max(6, this.sizes[i] / 2);
      const far = (seen.x - x) ** 2 + (seen.y - y) ** 2;
      if (far <= reach * reach && seen.z > nearest) {
        nearest = seen.z;
        found = i;
      }
    }
    return found;
  }

  #scale() {
    const side = Math.min(this.width, this.height);
    return [(0.78 * side) / this.width, (0.78 * side) / this.height];
  }
}

function link(gl) {
  const program = gl.createProgram();
  for (const [kind, source] of [
    [gl.VERTEX_SHADER, VERTEX],
    [gl.FRAGMENT_SHADER, FRAGMENT],
  ]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  return program;
}

/** Rows of the matrix that turns by `up` about x after `side` about y. */
function turnOf(up, side) {
  const [cu, su, cs, ss] = [Math.cos(up), Math.sin(up), Math.cos(side), Math.sin(side)];
  return [
    [cs, 0, ss],
    [su * ss, cu, -su * cs],
    [-cu * ss, su, cu * cs],
  ];
}

function product(a, b) {
  return a.map((row) => [0, 1, 2].map((j) => row[0] * b[0][j] + row[1] * b[1][j] + row[2] * b[2][j]));
}

function columns(rows) {
  return new Float32Array([0, 1, 2].flatMap((j) => rows.map((row) => row[j])));
}
