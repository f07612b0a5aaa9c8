// Act with an exported policy in Node: npm install onnxruntime-node, then node act_onnx.js policy.onnx
const ort = require("onnxruntime-node");
const fs = require("fs");

const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
const gumbel = () => -Math.log(-Math.log(1 - Math.random()));
const draw = { normal, gumbel, uniform: Math.random };
const tensor = (shape, value) =>
  new ort.Tensor("float32", Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, value), shape);

async function main(file) {
  const policy = await ort.InferenceSession.create(file, { intraOpNumThreads: 1, interOpNumThreads: 1 });
  const about = JSON.parse(fs.readFileSync(`${file}.json`));
  const feed = { obs: tensor([1, ...about.obs_shape], () => 0) };
  for (const [name, noise] of Object.entries(about.noise))
    feed[name] = tensor(noise.shape.map((n) => (n === "batch" ? 1 : n)), draw[noise.distribution]);
  const { action } = await policy.run(feed);
  console.log(about.agent, action.dims.slice(1), Array.from(action.data));
}

main(process.argv[2]);
